//! What sidecars are told to trust.

use bytes::Bytes;
use fairtide_policy::{Message, PROTOCOL_VERSION};
use sha2::{Digest, Sha256};

/// The certificate authorities that are or will be used, as all who must trust them are told.
#[derive(Debug, PartialEq, Eq)]
pub struct Trust {
    /// Names this set.
    pub version: String,
    /// All of them, PEM, the oldest first.
    pub pem: String,
    /// The message for sidecars, with its line end.
    pub line: Bytes,
}

// === impl Trust ===

impl Trust {
    /// Of the authorities of a PEM text.
    pub fn new(pem: String) -> Self {
        let hash = Sha256::digest(&pem);
        let version: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let message = Message::Authorities {
            v: PROTOCOL_VERSION,
            version: version.clone(),
            pem: pem.clone(),
        };
        let mut line = serde_json::to_vec(&message).expect("texts and a number");
        line.push(b'\n');
        Self {
            version,
            pem,
            line: line.into(),
        }
    }
}
