//! What can be asked of an operator, and why it may not start.

use crate::{
    channel::{
        ca::{CaError, rotation},
        tls::TlsError,
    },
    clock::Clock,
    lease::Timings,
    source::files::FilesError,
    webhook::{self, cert_dir::CertDirError},
};
use std::{io, net::SocketAddr, path::PathBuf};

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where sidecars connect.
    pub channel: SocketAddr,
    /// Where probes and metrics are.
    pub admin: SocketAddr,
    /// The operator's own namespace.
    pub namespace: String,
    /// Where a copy of the CA's certificate is written.
    pub ca_copy: Option<PathBuf>,
    /// Further names of the channel.
    pub names: Vec<String>,
    /// Where other replicas send sidecars.
    pub advertise: Option<String>,
    /// Names this replica in the Lease and in Events.
    pub host: String,
    /// How the lease is kept.
    pub lease: Timings,
    /// How long certificates last.
    pub timings: rotation::Timings,
    /// The time of day.
    pub clock: Clock,
    /// The webhook; `None`: none is offered. It needs an API server.
    pub webhook: Option<webhook::Options>,
}

/// Where objects come from.
#[derive(Clone)]
pub enum Source {
    /// Files.
    Files(Files),
    /// An API server.
    Cluster(kube::Client),
}

/// What takes the place of an API server.
#[derive(Clone, Debug)]
pub struct Files {
    /// The folder of manifests.
    pub dir: PathBuf,
    /// The file with the one token that all sidecars show.
    pub token_file: PathBuf,
    /// Where the channel's CA is kept.
    pub ca_dir: PathBuf,
}

/// Why the operator doesn't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is taken, or isn't ours to use.
    #[error("{flag} {address}")]
    Listen {
        /// The flag that names it.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No token to compare with.
    #[error("--channel-token needs a file with a token in it, not {}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// No manifests.
    #[error("--manifests needs a folder of manifests that can be read")]
    Manifests(#[from] FilesError),
    /// No CA.
    #[error("channel CA")]
    Ca(#[from] CaError),
    /// No certificate of the webhook.
    #[error("--webhook-cert-dir needs a folder with tls.crt and tls.key")]
    CertDir(#[source] CertDirError),
    /// No TLS.
    #[error("--channel-san needs DNS names or IP addresses")]
    Tls(#[from] TlsError),
}

// === impl Options ===

impl Options {
    /// All names of the channel: those of its Service, of this machine, and those asked for.
    pub(super) fn all_names(&self) -> Vec<String> {
        let service = format!("fairtide-operator.{}.svc", self.namespace);
        let mut names = vec![
            format!("{service}.cluster.local"),
            service,
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
        ];
        for name in &self.names {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

// === impl StartError ===

impl StartError {
    /// Whether a flag's value is to blame, and not the machine.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Token { .. }
            | Self::Manifests(FilesError::Unreadable(_))
            | Self::CertDir(_)
            | Self::Tls(_) => true,
            Self::Manifests(FilesError::Unwatchable { .. }) | Self::Listen { .. } | Self::Ca(_) => {
                false
            }
        }
    }
}
