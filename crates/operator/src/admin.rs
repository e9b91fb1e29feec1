//! `/debug/pods`: what each pod should have and how far its sidecar is. On loopback only, beside
//! the probes and metrics that every process of ours has.

use crate::{fleet::Fleet, world::World};
use axum::{Json, Router, extract::State, routing::get};
use fairtide_policy::Report;
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::Arc;

/// One pod, as `/debug/pods` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodState {
    pod: String,
    /// The version that it should have; absent: no pool with a valid policy selects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted: Option<String>,
    connected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    sidecar_version: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acked: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Refused>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Arc<Report>>,
}

#[derive(Debug, Serialize)]
struct Refused {
    version: Arc<str>,
    reason: Arc<str>,
}

/// What the page is made of.
#[derive(Clone)]
pub struct Pods {
    /// What the pods should have.
    pub world: Arc<Mutex<World>>,
    /// How far they are.
    pub fleet: Arc<Fleet>,
}

/// The route.
pub fn routes(pods: Pods) -> Router {
    Router::new()
        .route("/debug/pods", get(page))
        .with_state(pods)
}

async fn page(State(pods): State<Pods>) -> Json<Vec<PodState>> {
    let world = pods.world.lock();
    let all = world
        .namespaces()
        .flat_map(|(_, namespace)| namespace.assigned());
    let states = all.map(|(pod, push)| {
        let progress = pods.fleet.progress_of(&pod.meta.key);
        PodState {
            pod: pod.meta.key.to_string(),
            wanted: push.map(|push| push.version.clone()),
            connected: progress.connected,
            sidecar_version: progress.sidecar_version,
            sent: progress.sent,
            acked: progress.acked,
            refused: progress.nacked.map(|nack| Refused {
                version: nack.version,
                reason: nack.reason,
            }),
            report: progress.report,
        }
    });
    Json(states.collect())
}
