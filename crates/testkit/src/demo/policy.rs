//! The policy files of a demo: copies of those under `examples/`, edited as a person would.

use anyhow::{Context, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A folder of policy files.
#[derive(Debug)]
pub struct PolicyFiles {
    folder: PathBuf,
}

// === impl PolicyFiles ===

impl PolicyFiles {
    /// Writes the files into an empty folder.
    pub fn write(folder: PathBuf, files: &[(&str, &str)]) -> anyhow::Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let policy = Self { folder };
        for (name, text) in files {
            policy.replace(name, text)?;
        }
        Ok(policy)
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Changes one line of a file. The line must be there once.
    pub fn edit(&self, name: &str, from: &str, to: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let lines: Vec<&str> = text.lines().collect();
        let found = lines.iter().filter(|line| line.trim() == from).count();
        ensure!(found == 1, "{name} has {found} lines {from:?}, not one");
        let edited = lines.iter().map(|line| {
            if line.trim() == from {
                line.replace(from, to)
            } else {
                (*line).to_owned()
            }
        });
        self.replace(name, &(edited.collect::<Vec<_>>().join("\n") + "\n"))
    }

    /// As careful editors do: whoever reads meanwhile sees the old file or the new one.
    fn replace(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let half = self.folder.join(format!(".{name}.new"));
        fs::write(&half, text).with_context(|| format!("write {}", half.display()))?;
        fs::rename(&half, self.folder.join(name)).with_context(|| format!("write {name}"))
    }
}
