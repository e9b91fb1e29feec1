//! Whose request it is.
//!
//! The sources are tried in the policy's order; the first that is present gives the tenant. An API
//! key never leaves this file: what the rest of the sidecar sees is the first 12 hex digits of its
//! SHA-256 (`printf %s "$KEY" | sha256sum | cut -c1-12`). A header is believed only from peers
//! inside `trustedCIDRs`, since a client could name anybody in it.

use fairtide_policy::{Tenancy, TenantSource};
use http::{HeaderMap, header::AUTHORIZATION};
use sha2::{Digest, Sha256};
use std::{net::IpAddr, sync::Arc};

/// A longer header value is no tenant's name but somebody's attempt to fill memory.
const MAX_NAME: usize = 256;

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tenant {
    /// What requests are told apart and matched by.
    pub(crate) key: Arc<str>,
    /// What logs and the decision ring show: a hash, since a header may carry anything; or the
    /// name that the policy gives to those without a key.
    pub(crate) shown: Arc<str>,
}

// === impl Tenant ===

impl Tenant {
    /// The tenant of a request with these headers.
    pub(crate) fn find(headers: &HeaderMap, trusted: bool, tenancy: &Tenancy) -> Self {
        for source in &tenancy.sources {
            match source {
                TenantSource::Header { name } if trusted => {
                    let value = headers.get(name).and_then(|value| value.to_str().ok());
                    let name = value.map(str::trim).filter(|name| !name.is_empty());
                    if let Some(name) = name.filter(|name| name.len() <= MAX_NAME) {
                        return Self {
                            key: name.into(),
                            shown: short_hash(name.as_bytes()).into(),
                        };
                    }
                }
                TenantSource::Header { .. } => {}
                TenantSource::ApiKey => {
                    if let Some(key) = api_key(headers) {
                        let hash: Arc<str> = short_hash(key).into();
                        return Self {
                            key: hash.clone(),
                            shown: hash,
                        };
                    }
                }
            }
        }
        let fallback: Arc<str> = tenancy.fallback_tenant.as_str().into();
        Self {
            key: fallback.clone(),
            shown: fallback,
        }
    }
}

/// Whether a peer's class and tenant headers are believed.
pub(crate) fn is_trusted(peer: IpAddr, tenancy: &Tenancy) -> bool {
    let peer = peer.to_canonical();
    tenancy.trusted_cidrs.iter().any(|net| net.contains(&peer))
}

fn api_key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(key)
    });
    let key = bearer.or_else(|| headers.get("x-api-key").map(|value| value.as_bytes()));
    key.map(<[u8]>::trim_ascii).filter(|key| !key.is_empty())
}

fn short_hash(bytes: &[u8]) -> String {
    let mut hash = hex::encode(Sha256::digest(bytes));
    hash.truncate(12);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenancy() -> Tenancy {
        Tenancy {
            sources: vec![
                TenantSource::Header {
                    name: "x-team".to_owned(),
                },
                TenantSource::ApiKey,
            ],
            trusted_cidrs: vec!["10.0.0.0/8".parse().expect("a network")],
            ..Tenancy::default()
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = http::HeaderName::from_static(name);
            (name, value.parse().expect("a value"))
        });
        pairs.collect()
    }

    #[test]
    fn a_header_names_the_tenant_only_from_a_trusted_peer() {
        let tenancy = tenancy();
        let headers = headers(&[("x-team", "search"), ("x-api-key", "secret")]);
        let trusted = Tenant::find(&headers, true, &tenancy);
        assert_eq!(&*trusted.key, "search");
        assert_ne!(&*trusted.shown, "search");
        let other = Tenant::find(&headers, false, &tenancy);
        assert_eq!(&*other.key, "2bb80d537b1d", "sha256 of secret");
        assert_eq!(other.key, other.shown);
    }

    #[test]
    fn a_key_is_found_wherever_clients_put_it() {
        let tenancy = tenancy();
        let of = |pairs: &[(&'static str, &str)]| Tenant::find(&headers(pairs), false, &tenancy);
        let key = of(&[("authorization", "Bearer secret")]);
        assert_eq!(key, of(&[("authorization", "bearer  secret ")]));
        assert_eq!(key, of(&[("x-api-key", "secret")]));
        assert_ne!(key, of(&[("x-api-key", "other")]));
        for none in [
            &[][..],
            &[("authorization", "Basic c2VjcmV0")],
            &[("authorization", "Bearer ")],
        ] {
            assert_eq!(&*of(none).key, "anonymous", "{none:?}");
        }
    }

    #[test]
    fn trust_is_by_network_also_through_ipv6_listeners() {
        let tenancy = tenancy();
        for (peer, trusted) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("11.1.2.3", false),
            ("::1", false),
        ] {
            let ip = peer.parse().expect("an address");
            assert_eq!(is_trusted(ip, &tenancy), trusted, "{peer}");
        }
        assert!(!is_trusted(
            "10.1.2.3".parse().expect("an address"),
            &Tenancy::default()
        ));
    }
}
