//! `TrafficClass`: which requests belong together, and what they may use of the pools they serve.

mod flow;
mod matching;

pub use flow::{Bucket, BucketUnit, Queue};
pub use matching::{HeaderMatch, JsonFieldMatch, MatchType, StringMatch, TrafficMatch};

use crate::{Condition, LabelSelector, PoolReference, pool::never_observed, published, rules};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which requests belong to the class, and what they may use.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "traffic.fairtide.dev",
    version = "v1alpha1",
    kind = "TrafficClass",
    plural = "trafficclasses",
    namespaced,
    status = "TrafficClassStatus",
    derive = "PartialEq",
    doc = "Requests that are treated alike: which they are, how they come before others, what they are guaranteed and how far they may go, on the pools that the class serves.",
    shortname = "ftclass",
    category = "fairtide",
    label("app.kubernetes.io/part-of", "fairtide"),
    printcolumn(
        name = "Tier",
        type_ = "string",
        json_path = ".spec.tier",
        description = "Interactive or Batch"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether every sidecar that serves the class obeys its newest version"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why it is ready or not"
    ),
    printcolumn(
        name = "Pools",
        type_ = "integer",
        json_path = ".status.pools",
        description = "Pools that the class serves"
    ),
    printcolumn(
        name = "Priority",
        type_ = "integer",
        json_path = ".spec.priority",
        description = "Higher goes first; empty: 100 for Interactive, 0 for Batch",
        priority = 1
    ),
    printcolumn(
        name = "Weight",
        type_ = "integer",
        json_path = ".spec.weight",
        description = "Share among classes of one priority; empty: 1",
        priority = 1
    ),
    printcolumn(
        name = "Min-Share",
        type_ = "integer",
        json_path = ".spec.minShare",
        description = "Guaranteed percent of what a pod serves",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    validation = rules::ONE_WAY_TO_POOLS.rule(),
    validation = rules::SHARES_IN_ORDER.rule()
)]
#[serde(rename_all = "camelCase")]
pub struct TrafficClassSpec {
    /// The pools that the class serves, by name. Exactly one of `poolRefs` and `poolSelector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["group".into(), "kind".into(), "name".into()]))]
    pub pool_refs: Option<Vec<PoolReference>>,
    /// The pools of this namespace that the class serves, by their labels. Exactly one of
    /// `poolRefs` and `poolSelector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_selector: Option<LabelSelector>,
    /// What the class may use. `Interactive`: somebody waits for each answer; seats are kept free
    /// for it. `Batch`: only throughput counts; it uses what is free, and its guaranteed share.
    pub tier: Tier,
    /// Higher goes first, -1000 to 1000. Default: 100 for Interactive, 0 for Batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1000, max = 1000))]
    pub priority: Option<i32>,
    /// Share among the classes of one priority, counted in the cost of what is served: twice the
    /// weight gets twice as much while both have requests waiting. 1 to 1000000. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub weight: Option<i32>,
    /// Percent of what each pod serves that is guaranteed to the class while it has requests
    /// waiting, whatever the priorities say. 0 to 90; 0 promises nothing. The classes of one pool
    /// can be promised 90 in all; beyond that the youngest get 0. Default: 0 for Interactive;
    /// Batch classes split what is left of the 90, at most 5 each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 90))]
    pub min_share: Option<i32>,
    /// Percent of the pod's limit (seats and tokens) that the class may hold, 1 to 100. One
    /// request is admitted even where the share is less than that. At least `minShare`.
    /// Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_share: Option<i32>,
    /// One request of the class is started after this long without a start, even when others
    /// always come first. A duration of 1s to 24h, such as `30s`. Default: never by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = rules::AT_LEAST_EVERY.rule())]
    pub at_least_every: Option<String>,
    /// The most requests of the class in the engine, per pod. Default: not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub max_in_flight: Option<i32>,
    /// Which requests belong to the class: those that meet any entry. Where several classes match,
    /// the entry of the highest `precedence` decides, then the older class. Default: none but
    /// those that a pool's `defaultClass` or a trusted `x-fairtide-class` header sends here.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub matches: Option<Vec<TrafficMatch>>,
    /// Limits the rate of the class, per pod. Default: not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<Bucket>,
    /// Bounds of the class's queue, per pod. What doesn't fit is refused at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
}

/// What a class may use.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord,
)]
pub enum Tier {
    /// Somebody waits for the answer.
    Interactive,
    /// Throughput counts.
    Batch,
}

/// What the operator last saw of the class.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[schemars(extend("default" = { "observedGeneration": -1 }))]
#[serde(rename_all = "camelCase")]
pub struct TrafficClassStatus {
    /// The newest generation that the operator has acted on; -1 before the first.
    #[serde(default = "never_observed")]
    pub observed_generation: i64,
    /// Pools that the class serves. Unset until they have been counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub pools: Option<i32>,
    /// Ready, Accepted, ResolvedRefs and Programmed; Conflicted, Reconciling and Stalled only while
    /// true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "published::conditions")]
    pub conditions: Vec<Condition>,
}

// === impl TrafficClassStatus ===

impl Default for TrafficClassStatus {
    fn default() -> Self {
        Self {
            observed_generation: never_observed(),
            pools: None,
            conditions: Vec::new(),
        }
    }
}
