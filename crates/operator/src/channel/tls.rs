//! TLS of the channel and of the webhook: ring only, and a server certificate that is renewed in
//! place while connections stay.

use super::ca::{CaError, ChannelCa, LEAF_LIFE};
use crate::causes::causes;
use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Why TLS can't be offered.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No certificate.
    #[error(transparent)]
    Ca(#[from] CaError),
    /// The TLS library refuses.
    #[error("TLS")]
    Tls(#[from] rustls::Error),
}

/// The server's side of TLS.
pub struct ChannelTls {
    ca: Arc<ChannelCa>,
    names: Vec<String>,
    provider: Arc<CryptoProvider>,
    present: Arc<PresentCert>,
    config: Arc<ServerConfig>,
}

/// The certificate that new connections get.
#[derive(Debug)]
struct PresentCert(ArcSwap<CertifiedKey>);

// === impl ChannelTls ===

impl ChannelTls {
    /// TLS of the channel, which speaks HTTP/2 only, with a fresh certificate for `names` (DNS
    /// names or IP addresses).
    ///
    /// # Errors
    /// A name is neither, or the library refuses.
    pub fn new(ca: impl Into<Arc<ChannelCa>>, names: Vec<String>) -> Result<Self, TlsError> {
        Self::with_protocols(ca.into(), names, &["h2"])
    }

    /// The same for a server that speaks these protocols.
    ///
    /// # Errors
    /// As [`ChannelTls::new`].
    pub fn with_protocols(
        ca: Arc<ChannelCa>,
        names: Vec<String>,
        protocols: &[&str],
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let first = certified(&ca, &names, &provider)?;
        let present = Arc::new(PresentCert(ArcSwap::from_pointee(first)));
        let mut config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(present.clone());
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        Ok(Self {
            ca,
            names,
            provider,
            present,
            config: Arc::new(config),
        })
    }

    /// Whether a certificate for `names` could be made.
    ///
    /// # Errors
    /// A name is neither a DNS name nor an IP address.
    pub fn check(names: &[String]) -> Result<(), TlsError> {
        rcgen::CertificateParams::new(names.to_vec()).map_err(CaError::from)?;
        Ok(())
    }

    /// What the accept loop needs.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Makes a new certificate and uses it for new connections.
    ///
    /// # Errors
    /// As [`ChannelTls::new`]; the old certificate stays.
    pub fn renew(&self) -> Result<(), TlsError> {
        let new = certified(&self.ca, &self.names, &self.provider)?;
        self.present.0.store(Arc::new(new));
        Ok(())
    }

    /// Renews the certificate at two thirds of its life, until `stop`.
    pub async fn keep_fresh(self, stop: CancellationToken) {
        let mut every = LEAF_LIFE * 2 / 3;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(every) => {}
            }
            every = match self.renew() {
                Ok(()) => {
                    tracing::info!("server certificate renewed");
                    LEAF_LIFE * 2 / 3
                }
                Err(error) => {
                    tracing::error!(error = causes(&error), "server certificate not renewed");
                    Duration::from_secs(60 * 60)
                }
            };
        }
    }
}

fn certified(
    ca: &ChannelCa,
    names: &[String],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let leaf = ca.leaf(names)?;
    Ok(CertifiedKey::from_der(leaf.chain, leaf.key, provider)?)
}

// === impl PresentCert ===

impl ResolvesServerCert for PresentCert {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}
