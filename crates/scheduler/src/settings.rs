//! What the scheduler obeys: the policy of one pod, in the scheduler's own terms.
//!
//! The numbers are trusted to be within the bounds that the API states; [`Settings`] is made by
//! `fairtide-policy` from the document that the operator pushes, which checks them.

use std::{sync::Arc, time::Duration};

/// The policy of one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How much may be in the engine at once.
    pub limit: Limit,
    /// Requests that the engine runs at once. `None`: [`Limit::max_requests`], else what the
    /// engine says of itself; while neither is known no seat rule binds.
    pub seat_cap: Option<u32>,
    /// The least number of seats that are kept free of batch work, whatever the arrivals say.
    pub reserved_seats: u32,
    /// Bytes of queued bodies that the pod may hold over all classes.
    pub max_queued_bytes: u64,
    /// Tenants per class with a queue of their own; those beyond share one.
    pub max_tenants: usize,
    /// The class that takes over what a deleted class had queued. One of `classes`.
    pub default_class: Arc<str>,
    /// The classes, in no particular order; names are unique.
    pub classes: Vec<ClassSettings>,
}

/// The limit on what is in flight.
///
/// `None` means that this dimension doesn't bind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limit {
    /// Requests in the engine.
    pub max_requests: Option<u32>,
    /// Context tokens in the engine: prompt and generated.
    pub max_tokens: Option<u64>,
}

/// What a class may use: headroom is kept for `Interactive`, and its latency is what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// Somebody waits for the answer.
    Interactive,
    /// Nobody waits for a single answer; throughput counts.
    Batch,
}

/// One traffic class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSettings {
    /// Unique name.
    pub name: Arc<str>,
    /// What the class may use.
    pub tier: Tier,
    /// Higher goes first.
    pub priority: i32,
    /// Share among classes of one priority, at least 1.
    pub weight: u32,
    /// Guaranteed percent of the cost that the pod serves; 0 promises nothing.
    pub min_share: u8,
    /// The most that the class may hold of the limit, in percent.
    pub max_share: Option<u8>,
    /// One request is started after this long even when others always come first.
    pub at_least_every: Option<Duration>,
    /// The most requests of the class in the engine.
    pub max_in_flight: Option<u32>,
    /// Rate limit.
    pub bucket: Option<BucketSettings>,
    /// Bounds of the queue.
    pub queue: QueueSettings,
}

/// What a bucket counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketUnit {
    /// One per request, debited at its start.
    Requests,
    /// Raw prompt and output tokens: reserved at the start, trued up at the end.
    Tokens,
}

/// A token bucket: `rate` units flow in per second, up to `burst`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketSettings {
    /// Units per second.
    pub rate: f64,
    /// Units that a full bucket holds.
    pub burst: f64,
    /// What is counted.
    pub unit: BucketUnit,
}

/// Bounds of a class's queue. `None` means the default that the tier gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueSettings {
    /// Requests. Default: 1000 for Interactive; for Batch what the pod drains in 30 s.
    pub max_requests: Option<u32>,
    /// Estimated tokens, prompt and output.
    pub max_tokens: Option<u64>,
    /// Bytes of request bodies.
    pub max_bytes: Option<u64>,
    /// Requests of one tenant.
    pub per_tenant: Option<u32>,
    /// The longest wait. A request that waited as long is refused.
    pub ttl: Duration,
}

/// What is known of the engine behind the pod. All unknown at first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineFacts {
    /// Requests that the engine runs at once, as it says or as was learned.
    pub seats: Option<u32>,
    /// Tokens that its KV cache holds.
    pub kv_tokens: Option<u64>,
    /// Tokens that one request may have, prompt and output.
    pub context_tokens: Option<u64>,
}
