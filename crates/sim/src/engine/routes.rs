//! The HTTP faces: the paths of each engine.

mod facts;

use super::{
    answer::{About, Answer},
    error::{ApiError, Fault},
    live::{Live, NotTaken, Whole},
    metrics::Refusal,
    request::{Asked, Endpoint, Generation, Served, TgiPath},
    stream::event_stream,
    version::{Imitated, Kind},
};
use axum::{
    Json, Router,
    body::Body,
    extract::{DefaultBodyLimit, State},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::json;
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The engines take bodies of any size; this keeps a mistake from filling the memory.
const MAX_BODY_BYTES: usize = 256 << 20;

/// What the paths answer with.
#[derive(Clone)]
pub(super) struct Face {
    pub live: Arc<Live>,
    pub imitated: Imitated,
    pub model: Arc<str>,
    pub max_model_len: u64,
    pub kv_tokens: u64,
    pub max_num_seqs: usize,
    pub most_requests: Option<usize>,
}

pub(super) fn router(face: Face) -> Router {
    let detail = |status: StatusCode| async move {
        let text = status.canonical_reason().unwrap_or_default();
        (status, Json(json!({"detail": text})))
    };
    let router = Router::new()
        .route("/v1/chat/completions", generating(Endpoint::Chat))
        .route("/v1/completions", generating(Endpoint::Completion))
        .route("/v1/models", get(facts::models))
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/metrics", get(metrics));
    let router = match face.imitated.kind() {
        Kind::Vllm => router.route("/version", get(facts::vllm_version)),
        Kind::Tgi => {
            let tgi = |path| generating(Endpoint::TgiGenerate(path));
            router
                .route("/", tgi(TgiPath::Root))
                .route("/generate", tgi(TgiPath::Plain))
                .route("/generate_stream", tgi(TgiPath::Stream))
                .route("/info", get(facts::tgi_info))
                .route("/ping", get(|| async { StatusCode::OK }))
                .route("/tokenize", post(facts::tgi_tokenize))
        }
        Kind::Sglang => router
            .route("/generate", generating(Endpoint::SglangGenerate))
            .route("/health_generate", get(|| async { StatusCode::OK }))
            .route("/get_model_info", get(facts::sglang_model))
            .route("/model_info", get(facts::sglang_model))
            .route("/get_server_info", get(facts::sglang_server)),
    };
    // axum answers for TGI, FastAPI for the others.
    let router = match face.imitated.kind() {
        Kind::Tgi => router,
        Kind::Vllm | Kind::Sglang => router
            .fallback(move || detail(StatusCode::NOT_FOUND))
            .method_not_allowed_fallback(move || detail(StatusCode::METHOD_NOT_ALLOWED)),
    };
    router
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(face)
}

fn generating(endpoint: Endpoint) -> MethodRouter<Face> {
    post(
        move |State(face): State<Face>, headers: HeaderMap, body: Bytes| async move {
            face.generate(endpoint, headers, body).await
        },
    )
}

async fn metrics(State(face): State<Face>) -> Response {
    let kind = match face.imitated.kind() {
        Kind::Vllm => "text/plain; version=1.0.0; charset=utf-8",
        Kind::Sglang => "text/plain; version=0.0.4; charset=utf-8",
        Kind::Tgi => "text/plain; charset=utf-8",
    };
    let page = face.live.metrics_page(&face.model);
    ([(header::CONTENT_TYPE, kind)], page).into_response()
}

// === impl Face ===

impl Face {
    async fn generate(&self, endpoint: Endpoint, headers: HeaderMap, body: Bytes) -> Response {
        let kind = self.imitated.kind();
        let asked = match Asked::read(endpoint, &body) {
            Ok(asked) => asked,
            Err(error) => return error.plain(kind, endpoint),
        };
        // A queued request holds no body.
        drop(body);
        let served = Served {
            kind,
            model: &self.model,
            max_model_len: self.max_model_len,
        };
        let request = asked.generation(&headers, served);
        if let Err(error) = &request
            && error.fault == Fault::Form
        {
            return error.plain(kind, endpoint);
        }
        self.live.asked();
        let answered = match request {
            Ok(request) => self.answer(&request, asked.is_streamed, &headers).await,
            Err(error) => Err(error),
        };
        answered.unwrap_or_else(|error| {
            match error.fault {
                Fault::Full => self.live.refused(Refusal::Full),
                Fault::Stopped => {}
                _ => self.live.refused(Refusal::Invalid),
            }
            if !(asked.is_streamed && error.is_inside(kind, endpoint)) {
                return error.plain(kind, endpoint);
            }
            let (writer, events) = event_stream();
            writer.write(|out| error.event(kind, endpoint, out));
            streamed(events.into_body(()))
        })
    }

    async fn answer(
        &self,
        request: &Generation,
        is_streamed: bool,
        headers: &HeaderMap,
    ) -> Result<Response, ApiError> {
        let kind = self.imitated.kind();
        let id = match headers.get("x-request-id").and_then(|id| id.to_str().ok()) {
            // SGLang makes up names of its own.
            Some(id) if kind == Kind::Vllm => id.to_owned(),
            _ => format!("{:016x}", rand::random::<u64>()),
        };
        let about = About {
            imitated: self.imitated,
            id: &id,
            model: &self.model,
            created: unix_seconds(),
        };
        let answer = Answer::new(request, &about);
        let not_taken = |why| match why {
            NotTaken::Full => ApiError::full(kind),
            NotTaken::TooLarge(error) => ApiError::rejected("input_tokens", error.to_string()),
        };
        if is_streamed {
            // The head goes out at once, however long the request waits: the status says nothing
            // about admission.
            let events = self.live.stream(request, answer).map_err(not_taken)?;
            return Ok(streamed(events));
        }
        let whole = self.live.whole(request, answer).await.map_err(not_taken)?;
        let whole = whole.ok_or_else(ApiError::stopped)?;
        let tokens = whole.facts.output_tokens;
        let json = Json(whole.answer.whole(tokens, &whole.times));
        Ok(match kind {
            Kind::Tgi => (tgi_headers(request, &whole), json).into_response(),
            Kind::Vllm | Kind::Sglang => json.into_response(),
        })
    }
}

fn streamed<B>(events: B) -> Response
where
    B: http_body::Body<Data = Bytes, Error = std::convert::Infallible> + Send + 'static,
{
    let kind = "text/event-stream; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], Body::new(events)).into_response()
}

/// What TGI says of a whole answer in headers, in milliseconds.
fn tgi_headers(request: &Generation, whole: &Whole) -> HeaderMap {
    let times = &whole.times;
    let inference = times.prefill + times.decode;
    let total = times.queued + inference;
    let tokens = whole.facts.output_tokens;
    let ms = |time: Duration| time.as_millis() as u64;
    let mut headers = HeaderMap::new();
    headers.insert("x-compute-type", HeaderValue::from_static("cpu+optimized"));
    for (name, value) in [
        ("x-compute-time", ms(total)),
        ("x-total-time", ms(total)),
        ("x-validation-time", 0),
        ("x-queue-time", ms(times.queued)),
        ("x-inference-time", ms(inference)),
        ("x-time-per-token", ms(inference) / tokens.max(1)),
        ("x-prompt-tokens", request.prompt_tokens),
        ("x-generated-tokens", tokens),
        ("x-compute-characters", request.characters),
    ] {
        headers.insert(HeaderName::from_static(name), value.into());
    }
    headers
}

fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
