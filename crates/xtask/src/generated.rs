//! Files that are made from code: written, or compared with what lies in the repository.

use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A file by its path from the root of the repository.
pub struct Generated {
    pub path: PathBuf,
    pub text: String,
}

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Writes the files, or, with `check`, fails where one is stale.
pub fn bring(files: Vec<Generated>, chore: &str, check: bool) -> Result<()> {
    let mut stale = Vec::new();
    for Generated { path, text } in files {
        let file = root().join(&path);
        if fs::read_to_string(&file).is_ok_and(|found| found == text) {
            continue;
        }
        if check {
            stale.push(path.display().to_string());
            continue;
        }
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        fs::write(&file, text).with_context(|| format!("writing {}", path.display()))?;
        println!("wrote {}", path.display());
    }
    if !stale.is_empty() {
        bail!(
            "stale: {}; run `cargo run -p xtask -- {chore}` and commit the result",
            stale.join(", ")
        );
    }
    Ok(())
}
