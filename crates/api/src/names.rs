//! Every name that Fairtide uses in a cluster or on the wire, in one place: they are part of the
//! product's interface.

/// API group of both kinds.
pub const GROUP: &str = "traffic.fairtide.dev";
/// The version that is served.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of both kinds.
pub const API_VERSION: &str = "traffic.fairtide.dev/v1alpha1";
/// Kind of a pool.
pub const INFERENCE_POOL: &str = "InferencePool";
/// Kind of a class.
pub const TRAFFIC_CLASS: &str = "TrafficClass";
/// Category: `kubectl get fairtide`.
pub const CATEGORY: &str = "fairtide";

/// The class that takes requests when nothing else does. No object can have this name.
pub const IMPLICIT_CLASS: &str = "_default";
/// The namespace of objects that name none, as with kubectl.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Where the operator runs.
pub const SYSTEM_NAMESPACE: &str = "fairtide-system";
/// Field manager of the operator's status writes, and the reporter of its events.
pub const FIELD_MANAGER: &str = "fairtide-operator";
/// The Secret with the channel's certificate authority, in [`SYSTEM_NAMESPACE`].
pub const CHANNEL_CA_SECRET: &str = "fairtide-channel-ca";
/// The Lease of the writing replica, in [`SYSTEM_NAMESPACE`].
pub const OPERATOR_LEASE: &str = "fairtide-operator";
/// Audience of the tokens that sidecars show to the operator.
pub const TOKEN_AUDIENCE: &str = "fairtide.dev";

/// Request: the class to use, believed only from trusted peers. Answer: the class that was used.
pub const CLASS_HEADER: &str = "x-fairtide-class";
/// Answer: how the request ended, an outcome word.
pub const OUTCOME_HEADER: &str = "x-fairtide-outcome";
/// Answer: the limit or rule that decided, a reason word.
pub const REASON_HEADER: &str = "x-fairtide-reason";
/// Answer: milliseconds in the queue.
pub const QUEUE_MS_HEADER: &str = "x-fairtide-queue-ms";
/// Label of every object that belongs to Fairtide.
pub const PART_OF_LABEL: &str = "app.kubernetes.io/part-of";
/// Its value.
pub const PART_OF: &str = "fairtide";
