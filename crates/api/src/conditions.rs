//! Types and reasons of the conditions in status. Reasons say why, never just "Pending"; users
//! script against them, so they are added and never renamed.

/// Summary: everything else is as it should be.
pub const READY: &str = "Ready";
/// The object makes sense by itself and beside the others.
pub const ACCEPTED: &str = "Accepted";
/// Every object that this one names exists and fits.
pub const RESOLVED_REFS: &str = "ResolvedRefs";
/// Every sidecar concerned runs the newest policy.
pub const PROGRAMMED: &str = "Programmed";
/// Pools only: every pod has a sidecar.
pub const INJECTED: &str = "Injected";
/// Classes only, and only while true: an older class takes some of the same requests.
pub const CONFLICTED: &str = "Conflicted";
/// Only while true: the newest generation is still being worked on.
pub const RECONCILING: &str = "Reconciling";
/// Only while true: nothing will change before a user edits something.
pub const STALLED: &str = "Stalled";

/// Reasons.
pub mod reason {
    /// `Accepted` is True and nothing is to be said.
    pub const ACCEPTED: &str = "Accepted";
    /// `Accepted` is False: a field is out of its bounds. The object is left out.
    pub const INVALID: &str = "Invalid";
    /// `Accepted` is True, but the class's `minShare` counts as 0 on some pool: older classes have
    /// been promised too much already.
    pub const MIN_SHARE_OVER_PROMISED: &str = "MinShareOverPromised";
    /// `Accepted` is True, but some pods that the pool selects belong to an older pool.
    pub const PODS_TAKEN: &str = "PodsTaken";

    /// `ResolvedRefs` is True.
    pub const RESOLVED_REFS: &str = "ResolvedRefs";
    /// `ResolvedRefs` is False: no such InferencePool, or none that the selector matches.
    pub const POOL_NOT_FOUND: &str = "PoolNotFound";
    /// `ResolvedRefs` is False: the InferencePool is there, but is not accepted.
    pub const POOL_INVALID: &str = "PoolInvalid";
    /// `ResolvedRefs` is False: the pool's `defaultClass` doesn't exist.
    pub const CLASS_NOT_FOUND: &str = "ClassNotFound";
    /// `ResolvedRefs` is False: the pool's `defaultClass` is there, but is not accepted.
    pub const CLASS_INVALID: &str = "ClassInvalid";
    /// `ResolvedRefs` is False: the pool's `defaultClass` doesn't serve the pool.
    pub const CLASS_NOT_SERVING: &str = "ClassNotServing";

    /// `Conflicted` is True: matches of equal precedence overlap.
    pub const MATCH_OVERLAP: &str = "MatchOverlap";

    /// `Programmed` and `Ready`: all sidecars run the newest policy.
    pub const PROGRAMMED: &str = "Programmed";
    /// Some sidecars don't run the newest policy yet.
    pub const PARTIALLY_PROGRAMMED: &str = "PartiallyProgrammed";
    /// No sidecar runs the newest policy yet.
    pub const PENDING: &str = "Pending";
    /// `Programmed` is Unknown: no pod, or none with a connected sidecar.
    pub const NO_ENDPOINTS: &str = "NoEndpoints";
    /// A sidecar refused the policy; the one before stays in force there.
    pub const REJECTED: &str = "Rejected";
    /// `Ready` is False because `Accepted` is.
    pub const NOT_ACCEPTED: &str = "NotAccepted";
    /// `Ready` is False because `ResolvedRefs` is.
    pub const REFS_NOT_RESOLVED: &str = "RefsNotResolved";
    /// `Ready` is True, and the pool's mode is `Bypass`: nothing is queued or limited.
    pub const BYPASSED: &str = "Bypassed";
    /// `Reconciling`: the newest generation is being resolved and sent.
    pub const NEW_GENERATION: &str = "NewGeneration";

    /// `Injected` is True.
    pub const INJECTED: &str = "Injected";
    /// `Injected` is False: some pods have no sidecar; the message says how they get one.
    pub const NOT_INJECTED: &str = "NotInjected";

    /// Warning (an Event, no condition): a Batch class goes before an Interactive one.
    pub const BATCH_FIRST: &str = "BatchFirst";
    /// Warning: a tenant source reads a header that is believed from nobody.
    pub const HEADER_NOT_TRUSTED: &str = "HeaderNotTrusted";
    /// Warning: no request can reach the class.
    pub const UNREACHABLE: &str = "Unreachable";
}
