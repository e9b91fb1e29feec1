//! `fairtide-sidecar mark-terminating`: the kubelet's hook at the beginning of the pod's end.
//!
//! It speaks to the sidecar over a Unix socket in the state folder, which nobody on the network
//! can reach: an HTTP path would let anybody end the pod's traffic. It also leaves a file beside
//! it, so that a sidecar that crashes meanwhile comes back knowing. The file goes with SIGTERM,
//! since the container may be restarted alone, and is worth nothing after the grace period.

use crate::lifecycle::Lifecycle;
use std::{
    fs,
    io::{self, Read, Write},
    os::unix::net::UnixStream as StdUnixStream,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    time::Instant,
};

const SOCKET: &str = "drain.sock";
const FILE: &str = "terminating";
const WORD: &[u8] = b"terminating\n";

/// A sidecar that lives answers at once.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Where the mark is left.
#[derive(Clone, Debug)]
pub struct Marker {
    folder: PathBuf,
}

/// The mark could be neither said nor left.
#[derive(Debug, thiserror::Error)]
#[error("can't mark the pod in {folder}: {file}; and the sidecar can't be told: {socket}")]
pub struct MarkError {
    folder: PathBuf,
    file: io::Error,
    socket: io::Error,
}

// === impl Marker ===

impl Marker {
    /// In the state folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// Marks the pod as terminating; returns at once.
    ///
    /// # Errors
    /// Nothing could be left, and nobody could be told.
    pub fn mark(&self) -> Result<(), MarkError> {
        let left = self.leave();
        let told = self.tell();
        match (left, told) {
            (Err(file), Err(socket)) => Err(MarkError {
                folder: self.folder.clone(),
                file,
                socket,
            }),
            _ => Ok(()),
        }
    }

    fn leave(&self) -> io::Result<()> {
        let path = self.folder.join(FILE);
        if path.exists() {
            return Ok(());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_millis();
        fs::write(path, now.to_string())
    }

    fn tell(&self) -> io::Result<()> {
        let mut stream = StdUnixStream::connect(self.folder.join(SOCKET))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.write_all(WORD)?;
        let mut answer = [0; 3];
        stream.read_exact(&mut answer)
    }

    /// How long ago the pod was marked, if it was, and not so long that it would be gone by now.
    pub(crate) fn age(&self, grace: Duration) -> Option<Duration> {
        let text = fs::read_to_string(self.folder.join(FILE)).ok()?;
        let at = Duration::from_millis(text.trim().parse().ok()?);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let age = now.checked_sub(at).filter(|age| *age <= grace);
        if age.is_none() {
            self.remove();
        }
        age
    }

    /// The mark doesn't hold any more.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(self.folder.join(FILE));
    }

    /// Hears the hook for as long as the process lives.
    pub(crate) async fn hear(self, lifecycle: Arc<Lifecycle>) {
        let listener = match self.listen() {
            Ok(listener) => listener,
            Err(error) => {
                let folder = self.folder.display();
                tracing::error!(%folder, %error, "the pod's end can't be told to this sidecar");
                return;
            }
        };
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let heard = tokio::time::timeout(TIMEOUT, hear_one(stream, &lifecycle)).await;
                    if let Ok(Err(error)) = heard {
                        tracing::debug!(%error, "the hook broke off");
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "can't accept the hook");
                    tokio::time::sleep(TIMEOUT).await;
                }
            }
        }
    }

    fn listen(&self) -> io::Result<UnixListener> {
        fs::create_dir_all(&self.folder)?;
        let path = self.folder.join(SOCKET);
        // Of a process that was here before: only one sidecar runs in a pod.
        remove_socket(&path)?;
        UnixListener::bind(path)
    }
}

async fn hear_one(mut stream: UnixStream, lifecycle: &Lifecycle) -> io::Result<()> {
    let mut word = [0; WORD.len()];
    stream.read_exact(&mut word).await?;
    if word == WORD {
        if !lifecycle.has_begun() {
            tracing::info!("the pod is terminating");
        }
        lifecycle.begin(Instant::now());
        stream.write_all(b"ok\n").await?;
    }
    Ok(())
}

fn remove_socket(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
