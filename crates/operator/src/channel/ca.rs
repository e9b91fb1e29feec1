//! The channel's own certificate authorities, and the server certificates that they sign.
//!
//! Sidecars and the API server trust these and nothing else, so no public authority and no
//! cert-manager is needed. One signs at a time. Long before it ends the next one is made and made
//! known to everybody; only then it signs ([`rotation`] decides, [`keeper`] does it). They are kept
//! where all replicas and all later starts find them ([`secret`]), or in a directory ([`dir`]), where
//! the one there is never changed. Server certificates are made by each replica for itself and are
//! never stored.

mod authority;
pub mod dir;
pub mod keeper;
pub mod rotation;
pub mod secret;

pub use authority::{Authority, Cert, Leaf, Life};

use super::trust::Trust;
use fairtide_api::names::CHANNEL_CA_SECRET;
use std::{io, path::PathBuf, sync::Arc, time::SystemTime};

/// Why there is no authority.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// The directory can't be used.
    #[error("{}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The Secret can't be used.
    #[error("Secret {CHANNEL_CA_SECRET}")]
    Secret(#[source] Box<kube::Error>),
    /// The API server doesn't answer.
    #[error("no answer about Secret {CHANNEL_CA_SECRET}")]
    Slow,
    /// What is stored is no authority.
    #[error("{place} holds no usable CA ({reason}); delete it, and it is made anew")]
    Unusable {
        /// Where it is stored.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate can't be made.
    #[error("certificate can't be made")]
    Make(#[from] rcgen::Error),
}

/// All authorities that count at a time.
#[derive(Debug)]
pub struct Authorities {
    /// The one that signs.
    pub current: Arc<Authority>,
    /// The one that will: everybody is told to trust it.
    pub next: Option<Arc<Authority>>,
    /// The one that did. Its key is gone, but replicas and connections may still show what it
    /// signed.
    pub previous: Option<Cert>,
    trust: Arc<Trust>,
}

// === impl Authorities ===

impl Authorities {
    /// These three.
    pub fn new(
        current: Arc<Authority>,
        next: Option<Arc<Authority>>,
        previous: Option<Cert>,
    ) -> Self {
        let mut certs = vec![current.cert()];
        certs.extend(next.as_deref().map(Authority::cert));
        certs.extend(&previous);
        // By age: when the next one takes over, the text stays the same.
        certs.sort_by_key(|cert| cert.life.from);
        let pem: String = certs.iter().map(|cert| cert.pem.as_str()).collect();
        Self {
            trust: Arc::new(Trust::new(pem)),
            current,
            next,
            previous,
        }
    }

    /// All of them, for those who shall trust them.
    pub fn trust(&self) -> &Arc<Trust> {
        &self.trust
    }

    /// The authority for the webhook's certificate. API servers refuse one that is over, so the next
    /// one is better than that, however short it has been known. (Sidecars look at the end of the
    /// server's certificate alone, and are given their time to hear of the next one.)
    pub fn for_webhook(&self, now: SystemTime) -> &Arc<Authority> {
        let next = self.next.as_ref().filter(|next| next.life().holds(now));
        match next {
            Some(next) if !self.current.life().holds(now) => next,
            _ => &self.current,
        }
    }

    fn same(&self, other: &Self) -> bool {
        self.trust == other.trust && self.current.cert() == other.current.cert()
    }
}
