//! The policy of one pod, as it is stored and sent. Units are in the names.

use crate::Match;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Everything that a sidecar needs to serve its pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// The pool that this comes from.
    pub pool: ObjectRef,
    /// Whether decisions bind.
    #[serde(default)]
    pub mode: Mode,
    /// How hard the engine may be driven.
    #[serde(default)]
    pub limiter: Limiter,
    /// How the tenant of a request is found.
    #[serde(default)]
    pub tenancy: Tenancy,
    /// The class of requests that match none. Always the name of one of `classes`.
    pub default_class: String,
    /// The classes, in the order in which their matches are tried where precedence ties.
    pub classes: Vec<Class>,
}

/// The object that something comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its generation; 0 where it comes from a file.
    #[serde(default)]
    pub generation: i64,
}

/// Whether decisions bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Requests are queued, ordered, limited and refused.
    #[default]
    Enforce,
    /// Bytes are forwarded at once; metrics go on.
    Bypass,
}

/// How much may be in the engine at once. `None` means that the dimension doesn't bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limiter {
    /// Requests that the engine runs at once; unset: `max_requests`, else learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seat_cap: Option<u32>,
    /// The least number of seats kept free of batch work.
    #[serde(default)]
    pub reserved_seats: u32,
    /// Requests in the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u32>,
    /// Context tokens in the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

/// How the tenant of a request is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenancy {
    /// Tried in this order; the first that is present gives the tenant.
    #[serde(default)]
    pub sources: Vec<TenantSource>,
    /// Peers whose class and tenant headers are believed. Empty: nobody's.
    #[serde(default)]
    pub trusted_cidrs: Vec<IpNet>,
    /// The tenant of requests that carry no key.
    #[serde(default = "fallback_tenant")]
    pub fallback_tenant: String,
    /// Tenants per class with a queue of their own; those beyond share one.
    #[serde(default = "max_tenants")]
    pub max_tenants: u32,
}

fn fallback_tenant() -> String {
    "anonymous".to_owned()
}

fn max_tenants() -> u32 {
    1000
}

impl Default for Tenancy {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            trusted_cidrs: Vec::new(),
            fallback_tenant: fallback_tenant(),
            max_tenants: max_tenants(),
        }
    }
}

/// Where a tenant key is looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum TenantSource {
    /// A header's value, believed only from `trusted_cidrs`.
    Header {
        /// Its name, in lower case.
        name: String,
    },
    /// The bearer token of `Authorization`, or `x-api-key`. Only a short hash of it is kept.
    #[serde(rename = "APIKey")]
    ApiKey,
}

/// What a class may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// Somebody waits for the answer.
    Interactive,
    /// Throughput counts.
    Batch,
}

/// One traffic class, complete: defaults are filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Class {
    /// The name of its TrafficClass, or of the implicit class.
    pub name: String,
    /// The object's generation; 0 for a file's or the implicit class.
    #[serde(default)]
    pub generation: i64,
    /// What it may use.
    pub tier: Tier,
    /// Higher goes first.
    pub priority: i32,
    /// Share among classes of one priority.
    pub weight: u32,
    /// Guaranteed percent of the cost served.
    pub min_share: u8,
    /// The most of the limit that it may hold, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_share: Option<u8>,
    /// One start after this long, whatever comes first otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least_every_ms: Option<u64>,
    /// The most requests in the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Rate limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
    /// Bounds of the queue.
    pub queue: Queue,
    /// Which requests belong to it. Empty: none by themselves.
    #[serde(default)]
    pub matches: Vec<Match>,
}

/// What a bucket counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BucketUnit {
    /// Requests.
    Requests,
    /// Raw prompt and output tokens.
    Tokens,
}

/// `rate` units per `per_ms`, up to `burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bucket {
    /// Units that flow in per `per_ms`.
    pub rate: u64,
    /// The period of `rate`.
    pub per_ms: u64,
    /// Units that a full bucket holds.
    pub burst: u64,
    /// What is counted.
    pub unit: BucketUnit,
}

/// Bounds of a queue. `None`: the default of the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// Requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u32>,
    /// Estimated tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Bytes of bodies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Requests of one tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_tenant: Option<u32>,
    /// The longest wait.
    pub ttl_ms: u64,
}

// === impl Policy ===

impl Policy {
    /// What names this policy on the channel: a hash of its content, then the generations of the
    /// objects that it comes from. The same content has the same version, whoever computes it,
    /// before and after a failover.
    pub fn version(&self) -> String {
        let json = serde_json::to_vec(self).expect("a policy has only string keys");
        let hash = hex::encode(Sha256::digest(&json));
        let mut version = format!("{}-p{}", &hash[..12], self.pool.generation);
        for class in &self.classes {
            version.push_str(&format!("-c{}", class.generation));
        }
        version
    }

    /// The class of a name.
    pub fn class(&self, name: &str) -> Option<&Class> {
        self.classes.iter().find(|class| class.name == name)
    }
}
