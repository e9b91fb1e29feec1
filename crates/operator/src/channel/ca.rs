//! The channel's own certificate authority, and the server certificate that it signs.
//!
//! Sidecars trust this CA and nothing else, so no public CA and no cert-manager is needed. It is
//! kept where all replicas and all later starts find it: in the Secret
//! [`CHANNEL_CA_SECRET`] of the operator's namespace, or in a directory. Whoever comes first makes it; the
//! others read it. The server certificate is made at each start and again at two thirds of its
//! life, and is never stored.

use fairtide_api::names::CHANNEL_CA_SECRET;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

const CERT_KEY: &str = "ca.crt";
const PRIVATE_KEY: &str = "ca.key";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A CA outlives the clusters that it is made in; sidecars are handed a new one only with a
/// restart.
const CA_LIFE: Duration = DAY.saturating_mul(3_650);

/// Life of a server certificate. It is renewed after two thirds of it.
pub const LEAF_LIFE: Duration = DAY.saturating_mul(30);

/// Certificates begin this much earlier, for sidecars whose clock is slow.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// Why there is no CA.
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
    /// What is stored is no CA.
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

/// The CA, ready to sign.
pub struct ChannelCa {
    cert_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A server certificate with its key.
pub struct Leaf {
    /// The certificate. The CA is not sent: who trusts it has it.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
}

/// A new CA in the form in which it is stored.
struct Pem {
    cert: String,
    key: String,
}

// === impl ChannelCa ===

impl ChannelCa {
    /// Reads the CA from `dir`, or makes it there: `ca.crt`, and `ca.key` for the owner alone.
    ///
    /// # Errors
    /// The directory can't be written, or holds something else.
    pub fn in_dir(dir: &Path) -> Result<Self, CaError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| CaError::File { path, source }
        };
        std::fs::create_dir_all(dir).map_err(at(dir))?;
        let (cert_path, key_path) = (dir.join(CERT_KEY), dir.join(PRIVATE_KEY));
        let stored = [&cert_path, &key_path].map(|path| match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(path)(error)),
        });
        let [cert, key] = stored;
        match (cert?, key?) {
            (Some(cert), Some(key)) => Self::from_pem(&dir.display().to_string(), cert, &key),
            // A certificate alone is a copy that was handed out, perhaps of a CA in a Secret.
            (_, None) => {
                let pem = Pem::make()?;
                write_file(&key_path, &pem.key, 0o600).map_err(at(&key_path))?;
                write_file(&cert_path, &pem.cert, 0o644).map_err(at(&cert_path))?;
                Self::from_pem(&dir.display().to_string(), pem.cert, &pem.key)
            }
            (None, Some(_)) => Err(CaError::Unusable {
                place: key_path.display().to_string(),
                reason: "its ca.crt is missing".to_owned(),
            }),
        }
    }

    /// Reads the CA from the Secret, or makes it there. Replicas that start together agree: one
    /// creates it, the others read that one.
    ///
    /// # Errors
    /// The API server refuses, or the Secret holds something else.
    pub async fn in_secret(client: Client, namespace: &str) -> Result<Self, CaError> {
        let secrets = Api::<Secret>::namespaced(client, namespace);
        let failed = |error| CaError::Secret(Box::new(error));
        let secret = match secrets.get_opt(CHANNEL_CA_SECRET).await.map_err(failed)? {
            Some(secret) => secret,
            None => {
                let new = Pem::make()?.secret();
                match secrets.create(&PostParams::default(), &new).await {
                    Ok(created) => created,
                    Err(kube::Error::Api(status)) if status.code == 409 => {
                        secrets.get(CHANNEL_CA_SECRET).await.map_err(failed)?
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
        };
        let place = format!("Secret {namespace}/{CHANNEL_CA_SECRET}");
        let data = secret.data.unwrap_or_default();
        let text = |key: &str| {
            let bytes = data.get(key).map(|bytes| bytes.0.clone());
            bytes
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or_else(|| CaError::Unusable {
                    place: place.clone(),
                    reason: format!("no {key}"),
                })
        };
        Self::from_pem(&place, text(CERT_KEY)?, &text(PRIVATE_KEY)?)
    }

    fn from_pem(place: &str, cert_pem: String, key_pem: &str) -> Result<Self, CaError> {
        let unusable = |error: rcgen::Error| CaError::Unusable {
            place: place.to_owned(),
            reason: error.to_string(),
        };
        let key = KeyPair::from_pem(key_pem).map_err(unusable)?;
        let issuer = Issuer::from_ca_cert_pem(&cert_pem, key).map_err(unusable)?;
        Ok(Self { cert_pem, issuer })
    }

    /// The CA's certificate, for those who shall trust it.
    pub fn cert_pem(&self) -> &str {
        &self.cert_pem
    }

    /// Writes `ca.crt` into `dir`, for a launcher that hands it out.
    ///
    /// # Errors
    /// The directory can't be written.
    pub fn write_cert(&self, dir: &Path) -> Result<(), CaError> {
        let path = dir.join(CERT_KEY);
        std::fs::create_dir_all(dir)
            .and_then(|()| write_file(&path, &self.cert_pem, 0o644))
            .map_err(|source| CaError::File { path, source })
    }

    /// A new server certificate for `names` (DNS names or IP addresses).
    ///
    /// # Errors
    /// A name is neither.
    pub fn leaf(&self, names: &[String]) -> Result<Leaf, CaError> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params
            .distinguished_name
            .push(DnType::CommonName, "fairtide channel");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        set_life(&mut params, LEAF_LIFE);
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer)?;
        Ok(Leaf {
            chain: vec![cert.der().clone()],
            key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        })
    }
}

// === impl Pem ===

impl Pem {
    fn make() -> Result<Self, CaError> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "fairtide channel CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_life(&mut params, CA_LIFE);
        let key = KeyPair::generate()?;
        let cert = params.self_signed(&key)?;
        Ok(Self {
            cert: cert.pem(),
            key: key.serialize_pem(),
        })
    }

    fn secret(self) -> Secret {
        Secret {
            metadata: ObjectMeta {
                name: Some(CHANNEL_CA_SECRET.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            data: Some(BTreeMap::from([
                (CERT_KEY.to_owned(), ByteString(self.cert.into_bytes())),
                (PRIVATE_KEY.to_owned(), ByteString(self.key.into_bytes())),
            ])),
            ..Secret::default()
        }
    }
}

fn set_life(params: &mut CertificateParams, life: Duration) {
    let since_epoch = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let now = date_time_ymd(1970, 1, 1) + Duration::from_secs(since_epoch.as_secs());
    params.not_before = now - CLOCK_SKEW;
    params.not_after = now + life;
}

/// Replaces a file whole, so that no reader sees half of it.
fn write_file(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}
