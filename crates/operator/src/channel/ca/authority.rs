//! One certificate authority.

use crate::clock::unix_seconds;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::{
    fmt,
    time::{Duration, SystemTime},
};

/// Certificates begin this much earlier, for those whose clock is slow.
pub(super) const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// From when to when a certificate is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its beginning.
    pub from: SystemTime,
    /// Its end.
    pub to: SystemTime,
}

/// A certificate, for those who shall trust it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cert {
    /// PEM, with a line end.
    pub pem: String,
    /// From when to when it is good.
    pub life: Life,
}

/// A certificate authority, ready to sign.
pub struct Authority {
    cert: Cert,
    key_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A server certificate with its key.
pub struct Leaf {
    /// The certificate. The authority's is not sent: who trusts it has it.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
    /// From when to when it is good.
    pub life: Life,
}

// === impl Life ===

impl Life {
    /// One of this length that begins `now`.
    pub fn starting(now: SystemTime, length: Duration) -> Self {
        Self {
            from: now - CLOCK_SKEW,
            to: now + length,
        }
    }

    /// When the certificate was made.
    pub fn made(&self) -> SystemTime {
        self.from + CLOCK_SKEW
    }

    /// Whether it is good `now`.
    pub fn holds(&self, now: SystemTime) -> bool {
        self.from <= now && now < self.to
    }

    /// How long it is good from `now` on.
    pub fn left(&self, now: SystemTime) -> Duration {
        self.to.duration_since(now).unwrap_or_default()
    }

    /// How long ago it was made; zero where that is still to come.
    pub fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.made()).unwrap_or_default()
    }
}

// === impl Cert ===

impl Cert {
    /// Reads the first certificate of a PEM text.
    ///
    /// # Errors
    /// There is none.
    pub fn read(text: &str) -> Result<Self, String> {
        let (life, _) = parse(text)?;
        let mut pem = text.trim().to_owned();
        pem.push('\n');
        Ok(Self { pem, life })
    }
}

/// The life and the public key's DER of the first certificate of a PEM text.
fn parse(text: &str) -> Result<(Life, Vec<u8>), String> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(text.as_bytes())
        .map_err(|error| format!("no PEM certificate: {error}"))?;
    let cert = pem
        .parse_x509()
        .map_err(|error| format!("no certificate: {error}"))?;
    let time = |seconds: i64| {
        let seconds = u64::try_from(seconds).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    };
    let validity = cert.validity();
    let life = Life {
        from: time(validity.not_before.timestamp()),
        to: time(validity.not_after.timestamp()),
    };
    Ok((life, cert.public_key().raw.to_vec()))
}

// === impl Authority ===

impl Authority {
    /// A new one that is good for `length` from `now` on.
    ///
    /// # Errors
    /// The library refuses.
    pub fn make(now: SystemTime, length: Duration) -> Result<Self, rcgen::Error> {
        let life = whole_seconds(Life::starting(now, length));
        let mut params = CertificateParams::default();
        // Told apart by people who read a bundle.
        let name = format!("fairtide channel CA {}", unix_seconds(life.made()));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_life(&mut params, life);
        let key = KeyPair::generate()?;
        let cert = Cert {
            pem: params.self_signed(&key)?.pem(),
            life,
        };
        Ok(Self {
            cert,
            key_pem: key.serialize_pem(),
            issuer: Issuer::new(params, key),
        })
    }

    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_pem(cert_pem: &str, key_pem: &str) -> Result<Self, String> {
        let (_, public_key) = parse(cert_pem)?;
        let key = KeyPair::from_pem(key_pem).map_err(|error| error.to_string())?;
        if key.subject_public_key_info() != public_key {
            return Err("the key is another certificate's".to_owned());
        }
        let issuer = Issuer::from_ca_cert_pem(cert_pem, key).map_err(|error| error.to_string())?;
        Ok(Self {
            cert: Cert::read(cert_pem)?,
            key_pem: key_pem.to_owned(),
            issuer,
        })
    }

    /// Its certificate.
    pub fn cert(&self) -> &Cert {
        &self.cert
    }

    /// From when to when it is good.
    pub fn life(&self) -> Life {
        self.cert.life
    }

    /// Its private key, PEM.
    pub(super) fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// A new server certificate for `names` (DNS names or IP addresses), good for `length` from
    /// `now` on.
    ///
    /// # Errors
    /// A name is neither.
    pub fn leaf(
        &self,
        names: &[String],
        now: SystemTime,
        length: Duration,
    ) -> Result<Leaf, rcgen::Error> {
        let life = whole_seconds(Life::starting(now, length));
        let mut params = CertificateParams::new(names.to_vec())?;
        params
            .distinguished_name
            .push(DnType::CommonName, "fairtide operator");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        set_life(&mut params, life);
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer)?;
        Ok(Leaf {
            chain: vec![cert.der().clone()],
            key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            life,
        })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("life", &self.cert.life)
            .finish_non_exhaustive()
    }
}

/// As a certificate can say it.
fn whole_seconds(life: Life) -> Life {
    let whole = |time| SystemTime::UNIX_EPOCH + Duration::from_secs(unix_seconds(time));
    Life {
        from: whole(life.from),
        to: whole(life.to),
    }
}

fn set_life(params: &mut CertificateParams, life: Life) {
    let at = |time| date_time_ymd(1970, 1, 1) + Duration::from_secs(unix_seconds(time));
    params.not_before = at(life.from);
    params.not_after = at(life.to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_what_is_read() {
        let now = SystemTime::now();
        let made = Authority::make(now, Duration::from_secs(1000)).unwrap();
        let read = Authority::from_pem(&made.cert.pem, made.key_pem()).unwrap();
        assert_eq!(read.cert, made.cert);
        assert!(made.life().holds(now) && !made.life().holds(now + Duration::from_secs(1000)));
        assert!(read.life().left(now) > Duration::from_secs(990));
        assert!(read.life().age(now) < Duration::from_secs(2));
    }

    #[test]
    fn a_key_that_is_another_ones_is_refused() {
        let make = || Authority::make(SystemTime::now(), Duration::from_secs(1000)).unwrap();
        let (one, other) = (make(), make());
        let error = Authority::from_pem(&one.cert.pem, other.key_pem()).unwrap_err();
        assert!(error.contains("another certificate's"), "{error}");
        assert!(Authority::from_pem("", one.key_pem()).is_err());
        assert!(Authority::from_pem(&one.cert.pem, "").is_err());
    }
}
