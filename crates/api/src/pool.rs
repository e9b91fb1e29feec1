//! `InferencePool`: which pods, and how hard their engines may be driven.

mod limiter;
mod tenancy;

pub use limiter::{FixedLimit, Limiter, LimiterMode};
pub use tenancy::{HeaderSource, Tenancy, TenantSource, TenantSourceType};

use crate::{ClassReference, Condition, LabelSelector, published, rules};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which pods form the pool, and how hard their engines may be driven.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "traffic.fairtide.dev",
    version = "v1alpha1",
    kind = "InferencePool",
    namespaced,
    status = "InferencePoolStatus",
    derive = "PartialEq",
    doc = "The pods that serve one model, and how hard their engines may be driven. TrafficClasses say how the pool's requests share it.",
    shortname = "ftpool",
    category = "fairtide",
    label("app.kubernetes.io/part-of", "fairtide"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether every sidecar of the pool obeys the newest policy"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "Why it is ready or not"
    ),
    printcolumn(
        name = "Pods",
        type_ = "integer",
        json_path = ".status.pods.matched",
        description = "Pods that the selector matches"
    ),
    printcolumn(
        name = "In-Sync",
        type_ = "integer",
        json_path = ".status.pods.inSync",
        description = "Pods whose sidecar obeys the newest policy"
    ),
    printcolumn(
        name = "Connected",
        type_ = "integer",
        json_path = ".status.pods.connected",
        description = "Pods whose sidecar is connected to the operator",
        priority = 1
    ),
    printcolumn(
        name = "Mode",
        type_ = "string",
        json_path = ".spec.mode",
        description = "Enforce (also when empty) or Bypass",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct InferencePoolSpec {
    /// The pods of the pool, in its namespace. A pod that several pools select belongs to the
    /// oldest of them.
    pub selector: LabelSelector,
    /// The port on which the engine in each pod answers. Exactly one entry.
    #[schemars(length(max = 8))]
    #[x_kube(
        validation = rules::ONE_TARGET_PORT.rule(),
        merge_strategy = ListMerge::Atomic
    )]
    pub target_ports: Vec<TargetPort>,
    /// `Enforce`: requests are queued, ordered, limited and refused by the rules. `Bypass`: they
    /// are forwarded at once, whatever the rules say; metrics go on. Default: `Enforce`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Mode")]
    pub mode: Option<Mode>,
    /// How much may be in the engine at once. Default: no limit on tokens, and as many requests as
    /// the engine runs at once, as learned from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limiter: Option<Limiter>,
    /// How the tenant of a request is found. Tenants of one class share it fairly. Default: all
    /// requests belong to one tenant, `anonymous`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenancy: Option<Tenancy>,
    /// The TrafficClass of requests that match none. It must serve this pool. Default: an implicit
    /// Interactive class named `_default`, of priority 100 and weight 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_class: Option<ClassReference>,
}

/// A port of the pods.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TargetPort {
    /// Number of the port, 1 to 65535.
    #[schemars(range(min = 1, max = 65535))]
    pub number: i32,
}

/// Whether the rules bind.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Requests are queued, ordered, limited and refused.
    Enforce,
    /// Requests are forwarded at once.
    Bypass,
}

/// What the operator last saw of the pool.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[schemars(extend("default" = { "observedGeneration": -1 }))]
#[serde(rename_all = "camelCase")]
pub struct InferencePoolStatus {
    /// The newest generation that the operator has acted on; -1 before the first.
    #[serde(default = "never_observed")]
    pub observed_generation: i64,
    /// How many pods stand where. Unset until they have been counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PoolPods>,
    /// Ready, Accepted, ResolvedRefs, Injected and Programmed; Reconciling and Stalled only while true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "published::conditions")]
    pub conditions: Vec<Condition>,
}

/// How many pods of a pool stand where.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PoolPods {
    /// Pods that the selector matches and that belong to no older pool.
    #[schemars(range(min = 0))]
    pub matched: i32,
    /// Pods with a sidecar.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub injected: i32,
    /// Pods whose sidecar is connected to the operator.
    #[schemars(range(min = 0))]
    pub connected: i32,
    /// Pods whose sidecar obeys the newest policy.
    #[schemars(range(min = 0))]
    pub in_sync: i32,
    /// Pods whose sidecar is of another version than the operator. It goes on working; rolling the
    /// pods brings the present one.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub outdated: i32,
    /// Pods whose engine answers on the pod's own addresses, so that clients can go around the
    /// sidecar.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub bypassable: i32,
}

pub(crate) fn never_observed() -> i64 {
    -1
}

// === impl InferencePoolStatus ===

impl Default for InferencePoolStatus {
    fn default() -> Self {
        Self {
            observed_generation: never_observed(),
            pods: None,
            conditions: Vec::new(),
        }
    }
}
