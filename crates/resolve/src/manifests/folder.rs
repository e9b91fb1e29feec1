//! The one place that touches the disk.

use super::Manifests;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A folder or file that can't be read.
#[derive(Debug, thiserror::Error)]
#[error("can't read {}", path.display())]
pub struct Unreadable {
    /// Which.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Reads `*.yaml`, `*.yml` and `*.json` of a folder in the order of their names, or one file.
/// Folders within it are not entered; names that begin with a dot are passed over, since that is
/// where Kubernetes and editors keep their copies.
///
/// # Errors
/// When the folder or a file can't be read. What the files hold is never an error here: see
/// [`Manifests::errors`].
pub fn read_manifests(path: &Path) -> Result<Manifests, Unreadable> {
    let mut manifests = Manifests::default();
    for (name, path) in files(path)? {
        let bytes = fs::read(&path).map_err(|source| Unreadable { path, source })?;
        manifests.add(&name, &String::from_utf8_lossy(&bytes));
    }
    Ok(manifests)
}

fn files(path: &Path) -> Result<Vec<(String, PathBuf)>, Unreadable> {
    let unreadable = |source| Unreadable {
        path: path.to_owned(),
        source,
    };
    let name_of = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![(name_of(path), path.to_owned())]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = name_of(&path);
        let wanted = [".yaml", ".yml", ".json"]
            .iter()
            .any(|ending| name.ends_with(ending));
        if wanted && !name.starts_with('.') && path.is_file() {
            files.push((name, path));
        }
    }
    files.sort();
    Ok(files)
}
