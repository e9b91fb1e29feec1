//! The last policy that the operator sent, kept on disk across restarts of this process: a pod
//! whose sidecar restarts while the operator is down comes back under the rules it had.

use fairtide_policy::Policy;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

const FILE: &str = "policy.json";

/// A policy and the version that the operator gave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) version: String,
    pub(crate) policy: Policy,
}

/// Where it lies.
#[derive(Clone, Debug)]
pub(crate) struct KeptPolicy {
    file: PathBuf,
}

// === impl KeptPolicy ===

impl KeptPolicy {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            file: folder.join(FILE),
        }
    }

    /// What is kept; `None`: nothing yet.
    pub(crate) fn load(&self) -> io::Result<Option<Kept>> {
        match fs::read(&self.file) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps a policy. Whoever reads meanwhile, or after a crash, finds the old one or the new one,
    /// never a half.
    pub(crate) fn store(&self, kept: &Kept) -> io::Result<()> {
        write_whole(&self.file, &serde_json::to_vec(kept)?)
    }
}

/// Replaces a file, so that whoever reads meanwhile finds the old one or the new one.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let half = path.with_extension("new");
    let mut file = fs::File::create(&half)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(half, path)
}
