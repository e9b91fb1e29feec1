//! Removes the file of an engine's Unix socket that nobody listens on any more.
//!
//! The file outlives an engine that crashed and keeps the next one from binding; vLLM doesn't
//! remove it. That a connection is refused proves nothing: vLLM binds first and listens minutes
//! later. What proves it is `/proc/net/unix`, which lists the sockets of the pod's network. It is
//! looked at twice, since the file of a socket is there a moment before its entry.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The sockets of this network.
const SOCKETS: &str = "/proc/net/unix";

/// Watches a socket's file for as long as the process lives.
pub(crate) async fn watch(path: PathBuf) {
    let mut suspect = None;
    loop {
        suspect = match stale(&path) {
            Ok(Some(file)) if suspect == Some(file) => {
                match fs::remove_file(&path) {
                    Ok(()) => {
                        tracing::info!(path = %path.display(), "removed a dead socket's file")
                    }
                    Err(error) => {
                        tracing::warn!(path = %path.display(), %error, "can't remove a dead socket's file");
                    }
                }
                None
            }
            Ok(stale) => stale,
            Err(error) => {
                tracing::debug!(%error, "can't look after the engine's socket");
                None
            }
        };
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The inode of a socket's file without a socket.
fn stale(path: &Path) -> io::Result<Option<u64>> {
    let file = match fs::symlink_metadata(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.file_type().is_socket() {
        return Ok(None);
    }
    let sockets = fs::read_to_string(SOCKETS)?;
    let path = path.to_string_lossy();
    let alive = sockets
        .lines()
        .any(|line| line.split_ascii_whitespace().nth(7) == Some(&*path));
    Ok((!alive).then(|| file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_of_a_dead_socket_is_stale() {
        let folder = std::env::temp_dir().join(format!("fairtide-stale-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("s");
        assert_eq!(stale(&path).expect("a look"), None);
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        assert_eq!(stale(&path).expect("a look"), None);
        drop(listener);
        assert!(stale(&path).expect("a look").is_some());
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "").expect("a file");
        assert_eq!(stale(&path).expect("a look"), None, "no socket at all");
        fs::remove_dir_all(folder).expect("removed");
    }
}
