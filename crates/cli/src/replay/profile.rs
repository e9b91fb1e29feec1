//! `--profile`, with the name that it was asked for by.

use fairtide_sim::model::Profile;
use std::{path::Path, str::FromStr};

/// An engine, and what it is called in reports.
#[derive(Clone, Debug)]
pub struct NamedProfile {
    pub name: String,
    pub profile: Profile,
}

impl FromStr for NamedProfile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let profile = Profile::load(text).map_err(|error| error.to_string())?;
        // Of a file the folders don't matter, and differ from machine to machine.
        let name = Path::new(text).file_name();
        let name = name.map_or(text.into(), |name| name.to_string_lossy());
        Ok(Self {
            name: name.into_owned(),
            profile,
        })
    }
}
