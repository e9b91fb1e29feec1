//! The policy in force: swapped as a whole, read without a lock by each request.

use crate::{
    admission::Admission,
    classify::Classifier,
    metrics::{Metrics, PolicyLabels},
};
use arc_swap::{ArcSwap, Guard};
use fairtide_policy::{Policy, PolicyError};
use serde::Serialize;
use std::sync::Arc;
use tokio::{sync::Notify, time::Instant};

/// Where a policy came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Source {
    /// Nobody has said anything yet.
    Bootstrap,
    /// Files.
    Manifests,
    /// The operator.
    Channel,
    /// What the operator said before this process started.
    Kept,
}

/// A policy, made ready for requests.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) policy: Policy,
    pub(crate) version: String,
    pub(crate) source: Source,
    pub(crate) classifier: Classifier,
    pub(crate) since: Instant,
}

/// Where the policy in force stands.
#[derive(Clone, Debug)]
pub(crate) struct PolicySeat {
    current: Arc<ArcSwap<InForce>>,
    admission: Admission,
    metrics: Metrics,
    told: Arc<Notify>,
}

// === impl Source ===

impl Source {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Source::Bootstrap => "bootstrap",
            Source::Manifests => "manifests",
            Source::Channel => "channel",
            Source::Kept => "kept",
        }
    }
}

// === impl InForce ===

impl InForce {
    fn new(policy: Policy, version: String, source: Source) -> Self {
        Self {
            classifier: Classifier::new(&policy),
            policy,
            version,
            source,
            since: Instant::now(),
        }
    }

    /// Whether the operator made it, now or before.
    pub(crate) fn is_the_operators(&self) -> bool {
        matches!(self.source, Source::Channel | Source::Kept)
    }
}

// === impl PolicySeat ===

impl PolicySeat {
    /// Seats a policy that the admission task obeys already.
    pub(crate) fn new(
        policy: Policy,
        version: String,
        source: Source,
        admission: Admission,
        metrics: Metrics,
    ) -> Self {
        let seat = Self {
            current: Arc::new(ArcSwap::from_pointee(InForce::new(policy, version, source))),
            admission,
            metrics,
            told: Arc::default(),
        };
        seat.publish();
        seat
    }

    /// The policy in force at this moment.
    pub(crate) fn load(&self) -> Guard<Arc<InForce>> {
        self.current.load()
    }

    /// Puts another policy in force, as a whole or not at all.
    ///
    /// The scheduler learns of it first. So a request that is classified under the new policy
    /// never names a class that the scheduler doesn't know; one that was classified under the old
    /// policy and whose class is gone counts as the default class.
    pub(crate) async fn put_in_force(
        &self,
        policy: Policy,
        version: String,
        source: Source,
    ) -> Result<(), PolicyError> {
        let settings = match policy.settings() {
            Ok(settings) => settings,
            Err(error) => {
                self.metrics.policies_refused.inc();
                return Err(error);
            }
        };
        self.admission.apply(settings, policy.mode.into()).await;
        self.current
            .store(Arc::new(InForce::new(policy, version.clone(), source)));
        self.metrics.policies_applied.inc();
        self.publish();
        self.told.notify_one();
        tracing::info!(%version, source = source.as_str(), "policy in force");
        Ok(())
    }

    /// Waits until a policy was put in force after the first one.
    pub(crate) async fn told(&self) {
        self.told.notified().await;
    }

    fn publish(&self) {
        let current = self.load();
        self.metrics.policy.store(Arc::new(PolicyLabels {
            version: current.version.clone(),
            source: current.source.as_str(),
            since: current.since,
        }));
    }
}
