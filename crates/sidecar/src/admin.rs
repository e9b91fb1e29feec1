//! What a person may look at from inside the pod: the state of the scheduler, the policy in force
//! and the last decisions. Read only, on loopback only.

use crate::{
    admission::Admission, decisions::Decisions, engine_watch::EngineView, estimate::Learned,
    in_force::PolicySeat,
};
use arc_swap::ArcSwap;
use axum::{Json, Router, extract::State, routing::get};
use fairtide_scheduler::{ClassSnapshot, Snapshot, Tier};
use serde_json::{Value, json};
use std::sync::Arc;

/// What the debug pages show.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) policy: PolicySeat,
    pub(crate) admission: Admission,
    pub(crate) engine: Arc<ArcSwap<EngineView>>,
    pub(crate) learned: Arc<Learned>,
    pub(crate) decisions: Arc<Decisions>,
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
    let snapshot = shown.admission.snapshot().await;
    let policy = shown.policy.load();
    let engine = shown.engine.load();
    Json(json!({
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
