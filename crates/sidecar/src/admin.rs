//! What a person may look at from inside the pod: the state of the scheduler, the policy in force
//! and the last decisions. Read only, on loopback only.

mod pod;

use crate::{
    admission::Admission, decisions::Decisions, engine_watch::EngineViews, estimate::Learned,
    in_force::PolicySeat, pod_state::PodState, readiness::EngineState,
};
use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use fairtide_scheduler::{ClassSnapshot, Snapshot, Tier};
use serde_json::{Value, json};
use std::sync::Arc;

/// What the debug pages show.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) policy: PolicySeat,
    pub(crate) admission: Admission,
    pub(crate) engine: Arc<EngineViews>,
    pub(crate) learned: Arc<Learned>,
    pub(crate) decisions: Arc<Decisions>,
    pub(crate) state: PodState,
}

pub(crate) use pod::{Hook, Question, routes as pod_routes};

/// The same paths on the node's network, where loopback belongs to everybody on the node.
pub(crate) fn shown_to_nobody() -> Router {
    let text = "not shown on the node's network\n";
    let refuse = move || async move { (StatusCode::FORBIDDEN, text) };
    Router::new()
        .route("/debug/state", get(refuse))
        .route("/debug/decisions", get(refuse))
}

/// `/engine/ready`.
pub(crate) fn engine_ready(shown: Shown) -> Router {
    Router::new()
        .route("/engine/ready", get(pod::ready))
        .with_state(shown)
}

/// `/debug/state` and `/debug/decisions`.
pub(crate) fn routes(shown: Shown) -> Router {
    Router::new()
        .route("/debug/state", get(state))
        .route("/debug/decisions", get(decisions))
        .with_state(shown)
}

async fn decisions(State(shown): State<Shown>) -> Json<Value> {
    Json(json!({ "decisions": shown.decisions.newest_first() }))
}

async fn state(State(shown): State<Shown>) -> Json<Value> {
    let ports = shown.admission.snapshots().await;
    let snapshot = Snapshot::together(&ports);
    let unknown_mode = shown.policy.unknown_mode().await;
    let policy = shown.policy.load();
    let engine = shown.engine.together();
    let state = &shown.state;
    let found = state.found.load();
    let health = state.engine.borrow().clone();
    Json(json!({
        "pod": {
            "phase": state.lifecycle.phase().word(),
            "ready": state.health.is_ready(),
            "missing": state.health.missing(),
            "engine": health.word(),
            "engineWhy": match &health {
                EngineState::Down(why) => Some(why),
                _ => None,
            },
            "engineRestart": state.restart.is_on(),
            "mode": policy.mode.word(),
            "modeSource": policy.mode.source,
            "unknownMode": unknown_mode,
            "reached": found.reached,
            "bypassable": found.bypassable,
        },
        "policy": {
            "version": policy.version,
            "source": policy.source,
            "ageSeconds": policy.since.elapsed().as_secs_f64(),
            "document": policy.policy,
        },
        "engine": {
            "ageSeconds": engine.read_at.map(|at| at.elapsed().as_secs_f64()),
            "running": engine.gauges.running,
            "waiting": engine.gauges.waiting,
            "waitingForCapacity": engine.gauges.waiting_for_capacity,
            "kvUsage": engine.gauges.kv_usage,
            "kvTokens": engine.facts.kv_tokens,
            "contextTokens": engine.facts.context_tokens,
            "seatsLearned": engine.facts.seats,
        },
        "learned": {
            "tokensPerByte": shown.learned.tokens_per_byte(),
            "tokensPerEvent": shown.learned.tokens_per_event(),
        },
        "scheduler": scheduler(&snapshot),
        "ports": ports.iter().map(scheduler).collect::<Vec<_>>(),
    }))
}

fn scheduler(snapshot: &Snapshot) -> Value {
    json!({
        "inFlight": snapshot.in_flight,
        "inFlightTokens": snapshot.in_flight_tokens,
        "seatCap": snapshot.seat_cap,
        "reserve": snapshot.reserve,
        "tokenLimit": snapshot.token_limit,
        "queuedBytes": snapshot.queued_bytes,
        "servedCost": snapshot.served_cost,
        "classes": snapshot.classes.iter().map(class).collect::<Vec<_>>(),
    })
}

fn class(class: &ClassSnapshot) -> Value {
    json!({
        "name": *class.name,
        "tier": match class.tier {
            Tier::Interactive => "Interactive",
            Tier::Batch => "Batch",
        },
        "queued": class.queued,
        "queuedTokens": class.queued_tokens,
        "inFlight": class.in_flight,
        "inFlightTokens": class.in_flight_tokens,
        "servedCost": class.served_cost,
        "credit": class.credit,
        "bucket": class.bucket,
        "activeTenants": class.active_tenants,
        "selfLimited": class.self_limited,
    })
}
