//! The HTTP face: vLLM's paths.

use super::{
    answer::Answer,
    error::ApiError,
    live::Live,
    request::{Endpoint, Generation},
};
use axum::{
    Json, Router,
    body::Body,
    extract::{DefaultBodyLimit, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::json;
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// The version that it behaves like.
const VLLM_VERSION: &str = "0.32.0";

/// vLLM takes bodies of any size; this keeps a mistake from filling the memory.
const MAX_BODY_BYTES: usize = 256 << 20;

#[derive(Clone)]
struct Face {
    live: Arc<Live>,
    model: Arc<str>,
    max_model_len: u64,
}

pub(super) fn router(live: Arc<Live>, model: &str, max_model_len: u64) -> Router {
    let face = Face {
        live,
        model: model.into(),
        max_model_len,
    };
    let detail = |status: StatusCode| async move {
        let text = status.canonical_reason().unwrap_or_default();
        (status, Json(json!({"detail": text})))
    };
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completions))
        .route("/v1/models", get(models))
        .route("/health", get(|| async { StatusCode::OK }))
        .route(
            "/version",
            get(|| async { Json(json!({"version": VLLM_VERSION})) }),
        )
        .route("/metrics", get(metrics))
        .fallback(move || detail(StatusCode::NOT_FOUND))
        .method_not_allowed_fallback(move || detail(StatusCode::METHOD_NOT_ALLOWED))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(face)
}

async fn chat(State(face): State<Face>, headers: HeaderMap, body: Bytes) -> Response {
    face.generate(Endpoint::Chat, headers, body).await
}

async fn completions(State(face): State<Face>, headers: HeaderMap, body: Bytes) -> Response {
    face.generate(Endpoint::Completion, headers, body).await
}

async fn models(State(face): State<Face>) -> Response {
    Json(json!({"object": "list", "data": [{
        "id": &*face.model,
        "object": "model",
        "created": unix_seconds(),
        "owned_by": "vllm",
        "root": &*face.model,
        "parent": null,
        "max_model_len": face.max_model_len,
    }]}))
    .into_response()
}

async fn metrics(State(face): State<Face>) -> Response {
    let kind = "text/plain; version=1.0.0; charset=utf-8";
    let page = face.live.metrics_page(&face.model);
    ([(header::CONTENT_TYPE, kind)], page).into_response()
}

// === impl Face ===

impl Face {
    async fn generate(&self, endpoint: Endpoint, headers: HeaderMap, body: Bytes) -> Response {
        match self.answer(endpoint, headers, body).await {
            Ok(response) => response,
            Err(error) => error.into_response(),
        }
    }

    async fn answer(
        &self,
        endpoint: Endpoint,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response, ApiError> {
        let request =
            Generation::parse(endpoint, &headers, &body, &self.model, self.max_model_len)?;
        // A queued request holds no body.
        drop(body);
        let id = match headers.get("x-request-id").and_then(|id| id.to_str().ok()) {
            Some(id) => id.to_owned(),
            None => format!("{:016x}", rand::random::<u64>()),
        };
        let answer = Answer::new(&request, &id, &self.model, unix_seconds());
        let too_long =
            |error: crate::model::DoesNotFit| ApiError::rejected("input_tokens", error.to_string());
        if request.stream {
            // The head goes out at once, however long the request waits: as with vLLM, the status
            // says nothing about admission.
            let events = self.live.stream(&request, answer).map_err(too_long)?;
            let kind = "text/event-stream; charset=utf-8";
            return Ok(([(header::CONTENT_TYPE, kind)], Body::new(events)).into_response());
        }
        let whole = self.live.whole(&request, answer).await.map_err(too_long)?;
        Ok(Json(whole.ok_or_else(ApiError::stopped)?).into_response())
    }
}

fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
