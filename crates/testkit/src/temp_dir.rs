//! A folder that goes away with its owner, even when that is killed.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    os::unix::{fs::DirBuilderExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Waits for the end of the pipe, then removes the folder `$1`: several times, since programs that
/// end at the same moment may still write into it.
const JANITOR: &str = r#"
cat >/dev/null
for try in 1 2 3 4 5; do rm -rf -- "$1" && exit; sleep 0.2; done
"#;

/// A new folder below the system's folder for temporary files, readable by its owner only.
/// Removed on drop, and by a small shell when this process ends without dropping it: a `static`
/// is never dropped, and a killed process drops nothing.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
    janitor: Child,
}

fn random() -> u32 {
    RandomState::new().hash_one(0) as u32
}

// === impl TempDir ===

impl TempDir {
    /// Makes one. `what` becomes part of its name.
    pub fn new(what: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!(
            "fairtide-{what}-{}-{:08x}",
            std::process::id(),
            random(),
        ));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        let janitor = Command::new("sh")
            .args(["-c", JANITOR, "sh"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { path, janitor })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file into it, or puts another in its place, and gives its path. Who reads it
    /// meanwhile sees the whole old file or the whole new one.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        let half = self.path.join(format!(".{name}.{:08x}", random()));
        std::fs::write(&half, content)?;
        std::fs::rename(&half, &path)?;
        Ok(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}
