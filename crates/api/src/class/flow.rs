//! How fast a class may go, and how much of it may wait.

use crate::rules;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A rate limit: `rate` units flow in per `per`, and at most `burst` are kept.
///
/// A request waits in its queue until the bucket can pay, if that takes no longer than `queue.ttl`;
/// otherwise it is refused at arrival.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Bucket {
    /// Units that flow in per `per`, evenly.
    #[schemars(range(min = 1, max = 1_000_000_000_000i64))]
    pub rate: i64,
    /// The period of `rate`. A duration of 1s to 24h, such as `1m`. Default: `1m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = rules::BUCKET_PER.rule())]
    pub per: Option<String>,
    /// Units that a full bucket holds: what may be used at once after a pause. A request that
    /// needs more than this can never be served and is refused with 400. Default: `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_000i64))]
    pub burst: Option<i64>,
    /// `Requests`: each request takes 1. `Tokens`: prompt and output tokens; the largest output
    /// that the request allows is reserved at its start, and what wasn't used comes back.
    pub unit: BucketUnit,
}

/// What a bucket counts.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketUnit {
    /// Requests.
    Requests,
    /// Prompt and output tokens.
    Tokens,
}

/// Bounds of a class's queue on each pod.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// The most requests that wait. Default: 1000 for Interactive; for Batch what the pod works
    /// off in 30 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_requests: Option<i32>,
    /// The most tokens that wait, prompt and estimated output. Default: not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_000i64))]
    pub max_tokens: Option<i64>,
    /// The most bytes of request bodies that wait. Default: not limited, but for what the sidecar
    /// holds over all classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_000i64))]
    pub max_bytes: Option<i64>,
    /// The most requests of one tenant that wait. Default: not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub per_tenant: Option<i32>,
    /// The longest wait; a request that waited as long is refused with 429. A duration of 10ms to
    /// 24h. Load balancers often cut at 60 s. Default: `10s` for Interactive, `50s` for Batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = rules::QUEUE_TTL.rule())]
    pub ttl: Option<String>,
}
