//! Files that are made from code: written, or compared with what lies in the repository.

use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Holds files that are written by hand too: nothing is removed there.
const SHARED: &str = "manifests";

/// A file by its path from the root of the repository.
pub struct Generated {
    pub path: PathBuf,
    pub text: String,
}

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Writes the files and removes others from their folders, or, with `check`, fails where the
/// repository differs. The folders hold nothing but these files, [`SHARED`] aside.
pub fn bring(chore: &str, files: Vec<Generated>, check: bool) -> Result<()> {
    bring_to(root(), chore, files, check)
}

fn bring_to(root: &Path, chore: &str, files: Vec<Generated>, check: bool) -> Result<()> {
    let mut stale = Vec::new();
    for extra in extras(root, &files)? {
        stale.push(extra.display().to_string());
        if !check {
            fs::remove_file(root.join(&extra)).with_context(|| extra.display().to_string())?;
            println!("removed {}", extra.display());
        }
    }
    for Generated { path, text } in files {
        let file = root.join(&path);
        if fs::read_to_string(&file).is_ok_and(|found| found == text) {
            continue;
        }
        stale.push(path.display().to_string());
        if !check {
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            }
            fs::write(&file, text).with_context(|| path.display().to_string())?;
            println!("wrote {}", path.display());
        }
    }
    if check && !stale.is_empty() {
        bail!(
            "stale: {}; run `make {chore}` and commit the result",
            stale.join(", ")
        );
    }
    Ok(())
}

/// Files of the same folders that nothing generates any more.
fn extras(root: &Path, files: &[Generated]) -> Result<Vec<PathBuf>> {
    let wanted: BTreeSet<&Path> = files.iter().map(|file| file.path.as_path()).collect();
    let folders: BTreeSet<&Path> = wanted.iter().filter_map(|path| path.parent()).collect();
    let mut extras = Vec::new();
    for folder in folders {
        if folder == Path::new(SHARED) {
            continue;
        }
        let Ok(entries) = fs::read_dir(root.join(folder)) else {
            continue;
        };
        for entry in entries {
            let path = folder.join(entry?.file_name());
            if !wanted.contains(path.as_path()) && root.join(&path).is_file() {
                extras.push(path);
            }
        }
    }
    extras.sort();
    Ok(extras)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Vec<Generated> {
        vec![Generated {
            path: "made/a.txt".into(),
            text: text.to_owned(),
        }]
    }

    #[test]
    fn what_differs_is_stale_and_what_is_not_made_is_removed() {
        let root = std::env::temp_dir().join(format!("fairtide-xtask-{}", std::process::id()));
        let said = |text| {
            bring_to(&root, "docs", file(text), true)
                .err()
                .map(|error| error.to_string())
        };
        let missing = said("one");
        assert_eq!(
            missing.as_deref(),
            Some("stale: made/a.txt; run `make docs` and commit the result")
        );
        bring_to(&root, "docs", file("one"), false).unwrap();
        assert_eq!(said("one"), None);
        assert!(said("two").is_some());
        fs::write(root.join("made/old.txt"), "").unwrap();
        assert!(said("one").unwrap().contains("made/old.txt"));
        bring_to(&root, "docs", file("one"), false).unwrap();
        assert_eq!(said("one"), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
