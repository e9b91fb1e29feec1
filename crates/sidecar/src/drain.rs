//! The end of the pod, phase by phase ([`Lifecycle`]).
//!
//! It begins when the kubelet's hook marks the pod as terminating, or with SIGTERM, whichever
//! comes first. In a pod with native sidecars SIGTERM comes only after the engine has stopped, and
//! the engine stops only after its own hook has heard from `/drain/wait` that the pod is
//! drained.

use crate::{
    accept::Connections,
    admission::Admission,
    dial::EngineAddress,
    lifecycle::{DrainPlan, Lifecycle, Phase},
    mark::Marker,
};
use fairtide_telemetry::Health;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// What requests that were cut off are given to say so.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A pod that lives so long after its grace period wasn't going away.
const OUTLIVED: Duration = Duration::from_secs(10);

/// How often it is looked whether the engine has gone, once we were told to go.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Leads through the phases.
pub(crate) struct Drainer {
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) plan: DrainPlan,
    pub(crate) admission: Admission,
    pub(crate) exchanges: TaskTracker,
    pub(crate) health: Health,
    pub(crate) engines: Vec<EngineAddress>,
    pub(crate) marker: Option<Marker>,
}

// === impl Drainer ===

impl Drainer {
    /// Waits for the pod's end and goes through with it. Should the pod live on nevertheless (the
    /// kubelet also runs the hook before it restarts this container alone), it serves again.
    pub(crate) async fn follow(self) {
        loop {
            let begun = self.lifecycle.begun().await;
            self.drain(begun).await;
            let outlived = begun + self.plan.grace + OUTLIVED;
            tokio::select! {
                () = self.lifecycle.told_to_go().cancelled() => return,
                () = tokio::time::sleep_until(outlived) => {}
            }
            tracing::warn!("the pod was marked as terminating but lives on; serving again");
            if let Some(marker) = &self.marker {
                marker.remove();
            }
            self.exchanges.reopen();
            self.admission.reopen();
            self.lifecycle.resume();
            self.health.resume();
        }
    }

    async fn drain(&self, begun: Instant) {
        let deadline = begun + self.plan.time();
        if !self.plan.lame_duck().is_zero() {
            self.lifecycle.enter(Phase::LameDuck);
            tokio::select! {
                () = tokio::time::sleep_until(begun + self.plan.lame_duck()) => {}
                () = self.engine_left() => {}
            }
        }
        self.lifecycle.enter(Phase::Closing);
        self.health.drain();
        self.exchanges.close();
        let usual = self.admission.usual_stay().await.unwrap_or_default();
        let last_start = deadline.checked_sub(usual).unwrap_or(deadline);
        let left = last_start.saturating_duration_since(Instant::now());
        self.admission.close(left);
        let drained = tokio::time::timeout_at(last_start, self.exchanges.wait()).await;
        if drained.is_err() {
            self.admission.close(Duration::ZERO);
            if tokio::time::timeout_at(deadline, self.exchanges.wait())
                .await
                .is_err()
            {
                self.cut_off().await;
            }
        }
        self.lifecycle.enter(Phase::Drained);
    }

    async fn cut_off(&self) {
        let left = self.exchanges.len();
        tracing::warn!(left, "requests are cut off at the end of the drain time");
        self.lifecycle.time_up().tell();
        let _ = tokio::time::timeout(LAST_WORDS, self.exchanges.wait()).await;
    }

    /// We are told to go and there is no engine any more: nothing is left to wait for.
    async fn engine_left(&self) {
        self.lifecycle.told_to_go().cancelled().await;
        loop {
            let mut there = false;
            for engine in &self.engines {
                there |= engine.connect().await.is_ok();
            }
            if !there {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Closes what is open, once the process goes.
    pub(crate) async fn close(connections: &Connections) {
        connections.closing.cancel();
        connections.open.close();
        let closed = tokio::time::timeout(LAST_WORDS, connections.open.wait()).await;
        if closed.is_err() {
            tracing::debug!("connections are cut off");
        }
    }
}
