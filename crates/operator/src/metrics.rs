//! What the operator says about itself: `fairtide_operator_*`. No label carries a pod's name.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// One per process. Fields are bumped where things happen.
#[derive(Debug)]
pub struct Metrics {
    /// Pods that the operator knows.
    pub pods_known: Gauge,
    /// Pods with an open channel.
    pub pods_connected: Gauge,
    /// Snapshots handed to sidecars.
    pub snapshots: Counter,
    /// Snapshots that sidecars put in force.
    pub acks: Counter,
    /// Snapshots that sidecars refused.
    pub nacks: Counter,
    /// Channels that were refused or cut, by cause.
    pub channel_errors: Family<Cause, Counter>,
    /// From a change of a policy to the sidecar's ack.
    pub push_seconds: Histogram,
    /// Time to work out the policies after a change.
    pub resolve_seconds: Histogram,
    /// Status writes that the API server took.
    pub status_writes: Counter,
    /// Status writes that failed.
    pub status_errors: Counter,
    /// 1 while this replica holds the lease.
    pub lease_held: Gauge,
    /// Watches that broke and were started anew.
    pub watch_errors: Family<Kind, Counter>,
    /// Pods that the webhook was asked about, by how that ended.
    pub admissions: Family<Admission, Counter>,
    /// Time to answer about one pod.
    pub admission_seconds: Histogram,
    /// When certificates end, in seconds since 1970.
    pub certificate_ends: Family<Certificate, Gauge>,
    /// Connected pods whose sidecars don't say to trust the next authority yet.
    pub pods_not_trusting: Gauge,
}

/// One of our certificates.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Certificate {
    /// `ca`, `next_ca`, `channel` or `webhook`.
    pub certificate: &'static str,
}

/// How a question of the API server ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Admission {
    /// `injected`, `kept`, `skipped`, `refused` or `failed`.
    pub result: &'static str,
    /// A word of a closed list; empty where there is nothing to say.
    pub reason: &'static str,
}

/// Why a channel was refused or cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Cause {
    /// A word of a closed list.
    pub cause: &'static str,
}

/// The kind that a watch is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Kind {
    /// Its plural name.
    pub kind: &'static str,
}

// === impl Metrics ===

impl Metrics {
    /// The metrics, in a registry whose prefix is `fairtide_operator`.
    pub fn register(registry: &mut Registry) -> Self {
        let seconds = |values: &[f64]| Histogram::new(values.iter().copied());
        let metrics = Self {
            pods_known: Gauge::default(),
            pods_connected: Gauge::default(),
            snapshots: Counter::default(),
            acks: Counter::default(),
            nacks: Counter::default(),
            channel_errors: Family::default(),
            push_seconds: seconds(&[
                0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
            ]),
            resolve_seconds: seconds(&[0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0]),
            status_writes: Counter::default(),
            status_errors: Counter::default(),
            lease_held: Gauge::default(),
            watch_errors: Family::default(),
            admissions: Family::default(),
            admission_seconds: seconds(&[
                0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0,
            ]),
            certificate_ends: Family::default(),
            pods_not_trusting: Gauge::default(),
        };
        registry.register(
            "pods_known",
            "Pods that the operator knows",
            metrics.pods_known.clone(),
        );
        registry.register(
            "pods_connected",
            "Pods whose sidecar has a channel open",
            metrics.pods_connected.clone(),
        );
        registry.register(
            "snapshots",
            "Snapshots handed to sidecars",
            metrics.snapshots.clone(),
        );
        registry.register(
            "acks",
            "Snapshots that sidecars put in force",
            metrics.acks.clone(),
        );
        registry.register(
            "nacks",
            "Snapshots that sidecars refused",
            metrics.nacks.clone(),
        );
        registry.register(
            "channel_errors",
            "Channels that were refused or cut, by cause",
            metrics.channel_errors.clone(),
        );
        registry.register(
            "push_seconds",
            "Time from a change of a policy to the sidecar's ack",
            metrics.push_seconds.clone(),
        );
        registry.register(
            "resolve_seconds",
            "Time to work out the policies after a change",
            metrics.resolve_seconds.clone(),
        );
        registry.register(
            "status_writes",
            "Status writes that the API server took",
            metrics.status_writes.clone(),
        );
        registry.register(
            "status_errors",
            "Status writes that failed and are tried again",
            metrics.status_errors.clone(),
        );
        registry.register(
            "lease_held",
            "1 while this replica holds the lease",
            metrics.lease_held.clone(),
        );
        registry.register(
            "watch_errors",
            "Watches that broke and were started anew, by kind",
            metrics.watch_errors.clone(),
        );
        registry.register(
            "admissions",
            "Pods that the webhook was asked about, by result and reason",
            metrics.admissions.clone(),
        );
        registry.register(
            "admission_seconds",
            "Time to answer the API server about one pod",
            metrics.admission_seconds.clone(),
        );
        registry.register(
            "certificate_expiry_timestamp_seconds",
            "When a certificate ends, in seconds since 1970",
            metrics.certificate_ends.clone(),
        );
        registry.register(
            "pods_not_trusting_next_ca",
            "Pods with a channel open whose sidecar doesn't trust the next CA yet",
            metrics.pods_not_trusting.clone(),
        );
        metrics
    }
}
