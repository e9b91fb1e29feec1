//! The policy in force: swapped as a whole, read without a lock by each request.

use crate::{
    admission::Admission,
    classify::Classifier,
    metrics::{Metrics, PolicyLabels},
    mode::{ModeInForce, PodMode},
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
    /// The mode in force: the policy's, unless the pod itself says another.
    pub(crate) mode: ModeInForce,
}

/// Where the policy in force stands.
#[derive(Clone, Debug)]
pub(crate) struct PolicySeat {
    current: Arc<ArcSwap<InForce>>,
    admission: Admission,
    metrics: Metrics,
    told: Arc<Notify>,
    /// What the pod itself says of its mode. Held while anything is put in force, so that two
    /// changes don't cross.
    pod_mode: Arc<tokio::sync::Mutex<PodMode>>,
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
    fn new(policy: Policy, version: String, source: Source, mode: ModeInForce) -> Self {
        Self {
            mode,
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
        pod_mode: PodMode,
        admission: Admission,
        metrics: Metrics,
    ) -> Self {
        let mode = pod_mode.over(policy.mode);
        warn_of_unknown(&pod_mode, mode);
        let first = InForce::new(policy, version, source, mode);
        let seat = Self {
            current: Arc::new(ArcSwap::from_pointee(first)),
            pod_mode: Arc::new(tokio::sync::Mutex::new(pod_mode)),
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
        let pod_mode = self.pod_mode.lock().await;
        let mode = pod_mode.over(policy.mode);
        self.admission.apply(settings, mode.mode.into()).await;
        let next = InForce::new(policy, version.clone(), source, mode);
        self.current.store(Arc::new(next));
        drop(pod_mode);
        self.metrics.policies_applied.inc();
        self.publish();
        self.told.notify_one();
        tracing::info!(%version, source = source.as_str(), "policy in force");
        Ok(())
    }

    /// The pod itself says this of its mode from now on.
    pub(crate) async fn set_pod_mode(&self, said: PodMode) {
        let mut pod_mode = self.pod_mode.lock().await;
        if *pod_mode == said {
            return;
        }
        let current = self.current.load_full();
        let mode = said.over(current.policy.mode);
        warn_of_unknown(&said, mode);
        *pod_mode = said;
        if mode == current.mode {
            return;
        }
        if let Ok(settings) = current.policy.settings() {
            self.admission.apply(settings, mode.mode.into()).await;
        }
        tracing::info!(mode = mode.word(), source = mode.source, "mode in force");
        let mut next = InForce::new(
            current.policy.clone(),
            current.version.clone(),
            current.source,
            mode,
        );
        next.since = current.since;
        self.current.store(Arc::new(next));
    }

    /// What the pod itself says that is no mode.
    pub(crate) async fn unknown_mode(&self) -> Option<String> {
        match &*self.pod_mode.lock().await {
            PodMode::Unknown(text) => Some(text.clone()),
            _ => None,
        }
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

fn warn_of_unknown(said: &PodMode, mode: ModeInForce) {
    if let PodMode::Unknown(text) = said {
        tracing::warn!(
            annotation = text,
            mode = mode.word(),
            "the annotation fairtide.dev/mode is no mode and changes nothing: write Enforce or Bypass"
        );
    }
}
