//! Whom the operator has told us to trust.
//!
//! The authorities that a sidecar was started with are part of its pod and never change, but the
//! operator's do. It says so over the channel in time, and what it says is kept in the state
//! folder, so that a restarted sidecar trusts the same.

use super::kept::write_whole;
use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const FILE: &str = "authorities.pem";

/// Dozens of authorities. The folder is in memory, and small.
const LARGEST: usize = 64 << 10;

/// The authorities that came over the channel.
pub(super) struct Trust {
    file: Option<PathBuf>,
    learned: Mutex<Option<RootCertStore>>,
}

// === impl Trust ===

impl Trust {
    /// What is kept in the state folder. Without one nothing outlives this process.
    pub(super) fn load(state: Option<&Path>) -> Self {
        let file = state.map(|folder| folder.join(FILE));
        let kept = match file.as_deref().map(fs::read) {
            Some(Ok(pem)) => roots(&pem),
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
            _ => {
                return Self {
                    file,
                    learned: Mutex::default(),
                };
            }
        };
        if let Err(error) = &kept {
            tracing::error!(error, "the kept certificate authorities can't be read");
        }
        Self {
            file,
            learned: Mutex::new(kept.ok()),
        }
    }

    /// What was learned, if anything.
    pub(super) fn learned(&self) -> Option<RootCertStore> {
        self.learned.lock().clone()
    }

    /// Trusts these from now on, in the place of those learned before, once they are kept.
    ///
    /// # Errors
    /// They can't be read or kept; nothing has changed.
    pub(super) async fn learn(&self, pem: String) -> Result<(), String> {
        if pem.len() > LARGEST {
            return Err(format!("more than {LARGEST} bytes"));
        }
        let new = roots(pem.as_bytes())?;
        if let Some(file) = self.file.clone() {
            let stored = tokio::task::spawn_blocking(move || write_whole(&file, pem.as_bytes()));
            stored
                .await
                .map_err(io::Error::other)
                .flatten()
                .map_err(|error| format!("they can't be kept for the next start: {error}"))?;
        }
        *self.learned.lock() = Some(new);
        Ok(())
    }
}

/// The certificates of a PEM text, of which there must be one.
pub(super) fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let added = certificate.map(|certificate| roots.add(certificate));
        let added = added.map_err(|error| error.to_string())?;
        added.map_err(|error| error.to_string())?;
    }
    match roots.is_empty() {
        true => Err("it holds no certificate".to_owned()),
        false => Ok(roots),
    }
}
