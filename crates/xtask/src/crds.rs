//! `crds/`, and copies in `manifests/` so that one folder installs all: one file a kind, with its members in alphabetical order, so that a change of a type
//! shows as a small difference.

use crate::generated::Generated;
use anyhow::{Context, Result};
use serde_json::Value;

/// Where they go.
const FOLDERS: [&str; 2] = ["crds", "manifests"];

/// The files of both folders.
pub fn files() -> Result<Vec<Generated>> {
    fairtide_api::crds()
        .into_iter()
        .map(|crd| {
            let name = crd["metadata"]["name"]
                .as_str()
                .context("a definition has a name")?;
            let yaml = serde_yaml::to_string(&sorted(crd))?;
            let text = format!("# Generated from crates/api by `make crds`; edit there.\n{yaml}");
            Ok(FOLDERS.map(|folder| Generated {
                path: format!("{folder}/{name}.yaml").into(),
                text: text.clone(),
            }))
        })
        .collect::<Result<Vec<_>>>()
        .map(|files| files.into_iter().flatten().collect())
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            members
                .into_iter()
                .map(|(key, member)| (key.clone(), sorted(member)))
                .collect()
        }
        Value::Array(entries) => entries.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
