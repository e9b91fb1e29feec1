//! The webhook's certificate from a directory, as cert-manager and others fill it: `tls.crt`,
//! `tls.key`, and `ca.crt` of who signed it.
//!
//! The files are looked at now and then, so that a mounted Secret is followed however its links are
//! swapped. A certificate of another authority is used only when `caBundle` has that one too: of two
//! replicas one may see the new files a minute before the other.

use super::bundle::Entries;
use crate::{
    causes::causes,
    channel::{
        ca::{Cert, Life},
        tls::Presented,
    },
    clock::{Clock, unix_seconds},
    metrics::{Certificate, Metrics},
};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// Long after every replica has seen new files, the authority of the old ones is forgotten.
const KEEP_OLD: Duration = Duration::from_secs(60 * 60);

/// Why the directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CertDirError {
    /// A file can't be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// What the directory holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Pair {
    chain: Vec<u8>,
    key: Vec<u8>,
    /// Who signed it; `None` without `ca.crt`.
    authority: Option<String>,
    life: Life,
}

/// Follows the directory.
pub struct CertDir {
    /// The directory.
    pub dir: PathBuf,
    /// What it held at the start.
    pub first: Pair,
    /// What connections get.
    pub presented: Arc<Presented>,
    /// Whom API servers shall trust.
    pub trusted: watch::Sender<Option<Arc<str>>>,
    /// Whom they trust.
    pub entries: watch::Receiver<Entries>,
    /// Between two looks at the files.
    pub every: Duration,
    /// From the write of `caBundle` until every API server goes by it.
    pub spread: Duration,
    /// The time of day.
    pub clock: Clock,
    /// Where the certificate's end is shown.
    pub metrics: Arc<Metrics>,
    /// Fires when the operator ends.
    pub stop: CancellationToken,
}

/// What follows from the files.
struct State {
    shown: Pair,
    /// The authority before, and since when it isn't the one any more.
    old: Option<(String, Instant)>,
    /// A pair that waits for its authority to be known, and since when it is.
    waiting: Option<(Pair, Option<Instant>)>,
}

// === impl Pair ===

impl Pair {
    /// Reads the directory.
    ///
    /// # Errors
    /// A file is missing, or no certificate or key.
    pub fn read(dir: &Path) -> Result<Self, CertDirError> {
        // All of one version, where the kubelet swaps them.
        let dir = fs::canonicalize(dir.join("..data")).unwrap_or_else(|_| dir.to_owned());
        let (chain_path, key_path, ca_path) =
            (dir.join("tls.crt"), dir.join("tls.key"), dir.join("ca.crt"));
        let read = |path: &Path| {
            let path = path.to_owned();
            fs::read(&path).map_err(|source| CertDirError::File { path, source })
        };
        let content = |path: &Path, reason: &dyn ToString| CertDirError::Content {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let chain = read(&chain_path)?;
        let authority = match read(&ca_path) {
            Ok(bytes) => Some(String::from_utf8(bytes).map_err(|e| content(&ca_path, &e))?),
            Err(CertDirError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                None
            }
            Err(error) => return Err(error),
        };
        // cert-manager leaves it empty where it doesn't know it.
        let authority = authority.filter(|text| !text.trim().is_empty());
        if let Some(text) = &authority {
            Cert::read(text).map_err(|error| content(&ca_path, &error))?;
        }
        let cert = Cert::read(&String::from_utf8_lossy(&chain));
        let pair = Self {
            life: cert.map_err(|error| content(&chain_path, &error))?.life,
            key: read(&key_path)?,
            authority: authority.map(|text| format!("{}\n", text.trim())),
            chain,
        };
        pair.certified()
            .map_err(|error| content(&key_path, &error))?;
        Ok(pair)
    }

    /// As TLS needs it.
    ///
    /// # Errors
    /// The key is another certificate's, or neither can be read.
    pub fn certified(&self) -> Result<CertifiedKey, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.chain).collect();
        let chain = chain.map_err(|error| error.to_string())?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| error.to_string())?;
        let provider = rustls::crypto::ring::default_provider();
        CertifiedKey::from_der(chain, key, &provider).map_err(|error| error.to_string())
    }

    /// Whom API servers must trust for it; `None`: somebody else tells them.
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }
}

// === impl CertDir ===

impl CertDir {
    /// Follows it until `stop`.
    pub async fn follow(self) {
        let certificate = "webhook";
        let end = self
            .metrics
            .certificate_ends
            .get_or_create_owned(&Certificate { certificate });
        let mut state = State {
            shown: self.first,
            old: None,
            waiting: None,
        };
        let mut quiet = false;
        loop {
            end.set(unix_seconds(state.shown.life.to) as i64);
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(self.every) => {}
            }
            match Pair::read(&self.dir) {
                Ok(pair) => {
                    quiet = false;
                    state.found(pair);
                }
                // Half-written files are whole at the next look.
                Err(error) if !std::mem::replace(&mut quiet, true) => {
                    tracing::error!(error = causes(&error), "the webhook's certificate stays");
                }
                Err(_) => {}
            }
            self.trusted.send_if_modified(|present| {
                let wanted = state.trusted();
                let changed = *present != wanted;
                *present = wanted;
                changed
            });
            let over = !state.shown.life.holds(self.clock.now());
            let entries = self.entries.borrow().clone();
            if state.takes_over(&entries, self.spread, over) {
                match state.shown.certified() {
                    Ok(key) => {
                        self.presented.show(key);
                        tracing::info!(certificate, "server certificate read anew");
                    }
                    Err(error) => tracing::error!(error, "the webhook's certificate stays"),
                }
            }
        }
    }
}

// === impl State ===

impl State {
    /// The files hold this.
    fn found(&mut self, pair: Pair) {
        if pair == self.shown {
            self.waiting = None;
        } else if self
            .waiting
            .as_ref()
            .is_none_or(|(waiting, _)| *waiting != pair)
        {
            self.waiting = Some((pair, None));
        }
        self.old.take_if(|(_, since)| since.elapsed() > KEEP_OLD);
    }

    /// All authorities that count at present.
    fn trusted(&self) -> Option<Arc<str>> {
        let waiting = self.waiting.as_ref().map(|(pair, _)| pair);
        // Whoever writes the bundle of the newest writes it all.
        let newest = waiting.unwrap_or(&self.shown);
        newest.authority()?;
        let old = self.old.as_ref().map(|(pem, _)| pem.as_str());
        let mut all: Vec<&str> = Vec::new();
        for pem in [old, self.shown.authority(), newest.authority()] {
            if let Some(pem) = pem.filter(|pem| !all.contains(pem)) {
                all.push(pem);
            }
        }
        Some(all.concat().into())
    }

    /// Whether the pair that waits is shown from now on.
    fn takes_over(&mut self, entries: &Entries, spread: Duration, over: bool) -> bool {
        let Some((pair, since)) = &mut self.waiting else {
            return false;
        };
        let same = pair.authority() == self.shown.authority();
        let told = match pair.authority() {
            Some(pem) if !same && entries.all_hold(pem) => {
                since.get_or_insert_with(Instant::now).elapsed() >= spread
            }
            Some(_) if !same => {
                *since = None;
                false
            }
            _ => true,
        };
        if !(told || over) {
            return false;
        }
        let Some((pair, _)) = self.waiting.take() else {
            return false;
        };
        let before = std::mem::replace(&mut self.shown, pair);
        if let Some(pem) = before.authority.filter(|_| !same) {
            self.old = Some((pem, Instant::now()));
        }
        true
    }
}

#[cfg(test)]
mod tests;
