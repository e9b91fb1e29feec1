//! What is shown of the pod's state, on the metric page, on the debug page and in reports.

use crate::{
    engine_restart::EngineRestart, lifecycle::Lifecycle, readiness::EngineState, self_check::Found,
};
use arc_swap::ArcSwap;
use fairtide_telemetry::Health;
use std::sync::Arc;
use tokio::sync::watch;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct PodState {
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) health: Health,
    pub(crate) engine: watch::Receiver<EngineState>,
    pub(crate) restart: EngineRestart,
    pub(crate) found: Arc<ArcSwap<Found>>,
}
