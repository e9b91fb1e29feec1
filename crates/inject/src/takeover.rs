//! How the sidecar gets in front of the engine, and what keeps clients from going around it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How the sidecar gets the traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Takeover {
    /// The sidecar takes the engine's port number, the engine moves to another one. Services,
    /// pools and scrapers stay as they are.
    #[default]
    PortSwap,
    /// The user moved the engine and says so by annotation; its command line is left alone.
    Manual,
    /// The sidecar takes the engine's port *name*, on a number of its own; the engine stays. Only
    /// for clients that use the name.
    Named,
    /// The engine listens on a Unix socket, which only the sidecar reaches.
    #[serde(rename = "UDS")]
    Uds,
}

/// What keeps clients from going around the sidecar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolation {
    /// Nothing: the engine still answers on its new port.
    #[default]
    Open,
    /// A NetworkPolicy that the operator keeps.
    NetworkPolicy,
    /// The engine listens on loopback only; the kubelet's probes go through the sidecar.
    Loopback,
}

// === impl Takeover ===

impl Takeover {
    pub(crate) const WORDS: &'static str = "PortSwap, Manual, Named or UDS";

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::PortSwap, Self::Manual, Self::Named, Self::Uds]
            .into_iter()
            .find(|takeover| takeover.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::PortSwap => "PortSwap",
            Self::Manual => "Manual",
            Self::Named => "Named",
            Self::Uds => "UDS",
        }
    }
}

impl fmt::Display for Takeover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

// === impl Isolation ===

impl Isolation {
    pub(crate) const WORDS: &'static str = "Open, NetworkPolicy or Loopback";

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::Open, Self::NetworkPolicy, Self::Loopback]
            .into_iter()
            .find(|isolation| isolation.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Open => "Open",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::Loopback => "Loopback",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
