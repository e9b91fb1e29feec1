//! What the kubelet asks in the engine's stead, and the hook that holds the engine back.

use super::Shown;
use crate::{
    checks::{Answer, Check},
    engine_restart::EngineRestart,
    lifecycle::{Lifecycle, Phase},
    readiness::{Pulse, answer_kubelet},
};
use axum::{
    Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Mutex, time::Instant};

/// The sidecar's and the engine's hooks run at the same time: whoever asks to wait and hears of no
/// end within this time asks for the engine alone.
const MARKED_WITHIN: Duration = Duration::from_secs(2);

/// Answers are given again for so long. Many askers make one question.
const FRESH: Duration = Duration::from_secs(1);

/// A question of the kubelet, asked once at a time.
#[derive(Clone)]
pub(crate) struct Question {
    check: Arc<Check>,
    pulse: Pulse,
    last: Arc<Mutex<Option<(Instant, Answer)>>>,
}

/// What the hook needs to know.
#[derive(Clone)]
pub(crate) struct Hook {
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) restart: EngineRestart,
    /// The longest that it is held, whatever happens.
    pub(crate) bound: Duration,
}

// === impl Question ===

impl Question {
    pub(crate) fn new(check: Check, pulse: Pulse) -> Self {
        Self {
            check: Arc::new(check),
            pulse,
            last: Arc::default(),
        }
    }

    async fn ask(&self) -> Answer {
        let mut last = self.last.lock().await;
        if let Some((at, answer)) = &*last
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let answer = answer_kubelet(&self.check, &self.pulse).await;
        *last = Some((Instant::now(), answer.clone()));
        answer
    }
}

/// `/drain/wait`, `/engine/startup` and `/engine/live`.
pub(crate) fn routes(hook: Hook, startup: Question, live: Question) -> Router {
    let hook = Router::new()
        .route("/drain/wait", get(wait))
        .with_state(hook);
    let startup = Router::new()
        .route("/engine/startup", get(engine))
        .with_state(startup);
    let live = Router::new()
        .route("/engine/live", get(engine))
        .with_state(live);
    hook.merge(startup).merge(live)
}

/// `/engine/ready`: as the sidecar's own readiness sees the engine.
pub(super) async fn ready(State(shown): State<Shown>) -> Response {
    let engine = shown.state.engine.borrow().clone();
    answer(
        engine.is_ready(),
        &format!("the engine is {}", engine.word()),
    )
}

async fn engine(State(question): State<Question>) -> Response {
    match question.ask().await {
        Answer::Good => answer(true, "ok"),
        Answer::Late => answer(false, &format!("no answer in time: {}", question.check)),
        Answer::Bad(why) => answer(false, &format!("{}: {why}", question.check)),
    }
}

/// Reads only: whoever calls it, it ends nothing.
async fn wait(State(hook): State<Hook>) -> Response {
    let waits = async {
        let begun = tokio::time::timeout(MARKED_WITHIN, hook.lifecycle.begun()).await;
        if begun.is_err() {
            hook.restart.asked().await;
        }
        if hook.lifecycle.has_begun() {
            hook.lifecycle.reached(Phase::Drained).await;
            return "drained\n";
        }
        "the pod isn't going away\n"
    };
    match tokio::time::timeout(hook.bound, waits).await {
        Ok(text) => text.into_response(),
        Err(_) => "the time is up\n".into_response(),
    }
}

fn answer(good: bool, text: &str) -> Response {
    let status = match good {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, format!("{text}\n")).into_response()
}
