//! What the engines say of themselves.

use super::{Face, unix_seconds};
use crate::engine::version::Kind;
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

/// Bytes of text that make one token.
const BYTES_PER_TOKEN: usize = 4;

/// Where nothing bounds the requests of a TGI, it says its default.
const TGI_MOST_REQUESTS: usize = 128;

pub(super) async fn models(State(face): State<Face>) -> Json<Value> {
    let id = &*face.model;
    let about = match face.imitated.kind() {
        Kind::Tgi => json!({"id": id, "object": "model", "created": 0, "owned_by": id}),
        kind => json!({
            "id": id,
            "object": "model",
            "created": unix_seconds(),
            "owned_by": if kind == Kind::Vllm { "vllm" } else { "sglang" },
            "root": id,
            "parent": null,
            "max_model_len": face.max_model_len,
        }),
    };
    Json(json!({"object": "list", "data": [about]}))
}

pub(super) async fn vllm_version(State(face): State<Face>) -> Json<Value> {
    Json(json!({"version": face.imitated.version().to_string()}))
}

pub(super) async fn tgi_info(State(face): State<Face>) -> Json<Value> {
    Json(json!({
        "model_id": &*face.model,
        "model_sha": null,
        "model_pipeline_tag": "text-generation",
        "max_concurrent_requests": face.most_requests.unwrap_or(TGI_MOST_REQUESTS),
        "max_best_of": 1,
        "max_stop_sequences": 4,
        "max_input_tokens": face.max_model_len - 1,
        "max_total_tokens": face.max_model_len,
        "validation_workers": 2,
        "max_client_batch_size": 1,
        "router": "text-generation-router",
        "version": face.imitated.version().to_string(),
        "sha": null,
        "docker_label": null,
    }))
}

/// Four bytes make a token here, as everywhere in the simulator.
pub(super) async fn tgi_tokenize(body: Bytes) -> Response {
    let body: Option<Value> = serde_json::from_slice(&body).ok();
    let inputs = body.as_ref().and_then(|body| body.get("inputs")?.as_str());
    let Some(inputs) = inputs else {
        let text =
            "Failed to deserialize the JSON body into the target type: missing field `inputs`";
        return (StatusCode::UNPROCESSABLE_ENTITY, text).into_response();
    };
    let tokens = inputs.as_bytes().chunks(BYTES_PER_TOKEN).enumerate();
    let tokens = tokens.map(|(at, bytes)| {
        let start = at * BYTES_PER_TOKEN;
        json!({
            "id": at,
            "text": String::from_utf8_lossy(bytes),
            "start": start,
            "stop": start + bytes.len(),
        })
    });
    Json(tokens.collect::<Vec<_>>()).into_response()
}

pub(super) async fn sglang_model(State(face): State<Face>) -> Json<Value> {
    Json(json!({
        "model_path": &*face.model,
        "tokenizer_path": &*face.model,
        "is_generation": true,
        "preferred_sampling_params": null,
        "weight_version": "default",
    }))
}

pub(super) async fn sglang_server(State(face): State<Face>) -> Json<Value> {
    Json(json!({
        "model_path": &*face.model,
        "served_model_name": &*face.model,
        "context_length": face.max_model_len,
        "max_total_num_tokens": face.kv_tokens,
        "max_running_requests": face.max_num_seqs,
        "max_queued_requests": face.most_requests,
        "version": face.imitated.version().to_string(),
    }))
}
