//! TLS of the channel and of the webhook: ring only, and a server certificate that is renewed in
//! place while connections stay.

use super::ca::{Authorities, Authority, CaError, Life};
use crate::{
    causes::causes,
    clock::{Clock, unix_seconds},
    metrics::{Certificate, Metrics},
};
use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
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

/// What a server's certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The channel, which speaks HTTP/2 only.
    Channel,
    /// The webhook.
    Webhook,
}

/// How a server's certificate is made.
#[derive(Clone, Debug)]
pub struct Making {
    /// Who signs it.
    pub authorities: watch::Receiver<Arc<Authorities>>,
    /// DNS names or IP addresses that it is for.
    pub names: Vec<String>,
    /// How long it is good. It is renewed after two thirds of that.
    pub life: Duration,
    /// The time of day.
    pub clock: Clock,
}

/// A server's side of TLS, with a certificate of our own authorities.
pub struct ServerTls {
    purpose: Purpose,
    making: Making,
    provider: Arc<CryptoProvider>,
    presented: Arc<Presented>,
    /// Who signed the present certificate, and its life.
    signed: (Arc<Authority>, Life),
}

/// The certificate that new connections get. Those that are open keep theirs, and stay.
#[derive(Debug)]
pub struct Presented(ArcSwap<CertifiedKey>);

// === impl Making ===

impl Making {
    /// Whether a certificate for `names` could be made.
    ///
    /// # Errors
    /// A name is neither a DNS name nor an IP address.
    pub fn check(names: &[String]) -> Result<(), TlsError> {
        rcgen::CertificateParams::new(names.to_vec()).map_err(CaError::from)?;
        Ok(())
    }
}

// === impl ServerTls ===

impl ServerTls {
    /// With a fresh certificate.
    ///
    /// # Errors
    /// A name is neither a DNS name nor an IP address, or the library refuses.
    pub fn new(purpose: Purpose, making: Making) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let signer = signer(purpose, &making);
        let (first, life) = certified(&signer, &making, &provider)?;
        Ok(Self {
            purpose,
            making,
            provider,
            presented: Presented::new(first),
            signed: (signer, life),
        })
    }

    /// What the accept loop needs.
    ///
    /// # Errors
    /// The library refuses.
    pub fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        self.presented.clone().config(self.purpose)
    }

    /// Makes a new certificate, where another authority signs or two thirds of the present one's
    /// life are over, and uses it for new connections. Whether it did.
    ///
    /// # Errors
    /// As [`ServerTls::new`]; the old certificate stays.
    pub fn renew(&mut self) -> Result<bool, TlsError> {
        let signer = signer(self.purpose, &self.making);
        let (by, life) = &self.signed;
        let now = self.making.clock.now();
        // A clock that was set back would show a certificate that is still to come.
        let fresh = life.holds(now) && life.left(now) > self.making.life / 3;
        if fresh && by.cert() == signer.cert() {
            return Ok(false);
        }
        let (new, life) = certified(&signer, &self.making, &self.provider)?;
        self.presented.show(new);
        self.signed = (signer, life);
        Ok(true)
    }

    /// Keeps the certificate fresh until `stop`, with a look at the clock `every` so often.
    pub async fn keep_fresh(
        mut self,
        every: Duration,
        metrics: Arc<Metrics>,
        stop: CancellationToken,
    ) {
        let certificate = self.purpose.word();
        let end = metrics
            .certificate_ends
            .get_or_create_owned(&Certificate { certificate });
        let mut quiet = false;
        loop {
            end.set(unix_seconds(self.signed.1.to) as i64);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(every) => {}
                changed = self.making.authorities.changed() => if changed.is_err() { return },
            }
            match self.renew() {
                Ok(renewed) => {
                    quiet = false;
                    if renewed {
                        tracing::info!(certificate, "server certificate renewed");
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut quiet, true) {
                        tracing::error!(certificate, error = causes(&error), "not renewed");
                    }
                }
            }
        }
    }
}

fn signer(purpose: Purpose, making: &Making) -> Arc<Authority> {
    let authorities = making.authorities.borrow();
    match purpose {
        Purpose::Channel => authorities.current.clone(),
        Purpose::Webhook => authorities.for_webhook(making.clock.now()).clone(),
    }
}

fn certified(
    by: &Authority,
    making: &Making,
    provider: &CryptoProvider,
) -> Result<(CertifiedKey, Life), TlsError> {
    let leaf = by.leaf(&making.names, making.clock.now(), making.life);
    let leaf = leaf.map_err(CaError::from)?;
    let key = CertifiedKey::from_der(leaf.chain, leaf.key, provider)?;
    Ok((key, leaf.life))
}

// === impl Purpose ===

impl Purpose {
    fn word(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Webhook => "webhook",
        }
    }

    fn protocols(self) -> &'static [&'static str] {
        match self {
            Self::Channel => &["h2"],
            Self::Webhook => &["h2", "http/1.1"],
        }
    }
}

// === impl Presented ===

impl Presented {
    /// Begins with this one.
    pub fn new(first: CertifiedKey) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(first)))
    }

    /// New connections get this one.
    pub fn show(&self, new: CertifiedKey) {
        self.0.store(Arc::new(new));
    }

    /// A server that presents it.
    ///
    /// # Errors
    /// The library refuses.
    pub fn config(self: Arc<Self>, purpose: Purpose) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(self);
        let protocols = purpose.protocols().iter();
        config.alpn_protocols = protocols.map(|name| name.as_bytes().to_vec()).collect();
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Presented {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicI64, Ordering},
        time::SystemTime,
    };

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn authority() -> Arc<Authority> {
        Arc::new(Authority::make(SystemTime::now(), DAY * 1_000).unwrap())
    }

    #[test]
    fn a_certificate_follows_the_clock_wherever_it_jumps_and_the_authority() {
        let days = Arc::new(AtomicI64::new(0));
        let clock = Clock::new({
            let days = days.clone();
            move || {
                let days = days.load(Ordering::Relaxed);
                let by = DAY * u32::try_from(days.abs()).unwrap();
                match days < 0 {
                    true => SystemTime::now() - by,
                    false => SystemTime::now() + by,
                }
            }
        });
        let (first, next) = (authority(), authority());
        let only = Authorities::new(first.clone(), None, None);
        let (authorities, published) = watch::channel(Arc::new(only));
        let making = Making {
            authorities: published,
            names: vec!["localhost".to_owned()],
            life: DAY * 30,
            clock: clock.clone(),
        };
        let mut tls = ServerTls::new(Purpose::Channel, making.clone()).unwrap();
        let mut hook = ServerTls::new(Purpose::Webhook, making).unwrap();
        for (day, renewed) in [
            (0, false),
            (19, false),
            (21, true),
            (421, true),
            (425, false),
            (0, true),
            (-400, true),
            (-400, false),
        ] {
            days.store(day, Ordering::Relaxed);
            assert_eq!(tls.renew().unwrap(), renewed, "day {day}");
            assert!(tls.signed.1.holds(clock.now()), "day {day}");
        }
        days.store(0, Ordering::Relaxed);
        tls.renew().unwrap();

        let both = Authorities::new(first.clone(), Some(next.clone()), None);
        authorities.send_replace(Arc::new(both));
        assert!(!tls.renew().unwrap() && !hook.renew().unwrap(), "not yet");
        let previous = Some(first.cert().clone());
        authorities.send_replace(Arc::new(Authorities::new(next.clone(), None, previous)));
        assert!(tls.renew().unwrap() && hook.renew().unwrap());
        assert_eq!(tls.signed.0.cert(), next.cert());

        // API servers refuse the one that is over, sidecars don't.
        let later =
            Arc::new(Authority::make(SystemTime::now() + DAY * 1_100, DAY * 1_000).unwrap());
        let waits = Authorities::new(next.clone(), Some(later.clone()), None);
        authorities.send_replace(Arc::new(waits));
        days.store(1_100, Ordering::Relaxed);
        assert!(tls.renew().unwrap() && hook.renew().unwrap());
        assert_eq!(tls.signed.0.cert(), next.cert());
        assert_eq!(hook.signed.0.cert(), later.cert());
    }
}
