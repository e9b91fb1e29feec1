//! Errors in the shapes that the engines give them, so that clients and proxies parse the real thing.
//!
//! What went wrong is the same for all of them; how it is said, and whether inside a stream that
//! has begun with 200, is each engine's own.

use super::{request::Endpoint, version::Kind};
use axum::{
    Json,
    response::{IntoResponse, Response},
};
use bytes::{BufMut, BytesMut};
use http::StatusCode;
use serde_json::{Value, json};

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The body is no JSON.
    Syntax,
    /// The body doesn't have the form of a request.
    Form,
    /// It has, but the engine doesn't serve such a request.
    Value,
    /// There is no such model.
    Model,
    /// The engine has as many requests as it takes.
    Full,
    /// The engine stops with the request in it.
    Stopped,
}

/// An answer in place of a completion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ApiError {
    pub fault: Fault,
    pub message: String,
    pub param: Option<String>,
}

const STOPPED: &str =
    "EngineCore encountered an issue. See stack trace (above) for the root cause.";
const VLLM_FULL: &str = "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.";
const TGI_FULL: &str = "Model is overloaded";
const SGLANG_FULL: &str = "The request queue is full.";

// === impl ApiError ===

impl ApiError {
    pub fn syntax(column: usize) -> Self {
        let invalid = Self::invalid(
            &format!("body.{column}"),
            "json_invalid",
            "JSON decode error",
            "'<dict of 0 items>'",
        );
        Self {
            fault: Fault::Syntax,
            ..invalid
        }
    }

    /// The body doesn't have the form of a request. `location` is a path such as
    /// `body.max_tokens`, `kind` pydantic's name of the mistake.
    pub fn invalid(location: &str, kind: &str, message: &str, input: &str) -> Self {
        Self {
            fault: Fault::Form,
            message: format!(
                "1 validation error:\n  {{'type': '{kind}', 'loc': '{location}', 'msg': '{message}', 'input': {input}}}"
            ),
            param: Some(location.to_owned()),
        }
    }

    pub fn missing(field: &str, fields: usize) -> Self {
        Self::invalid(
            &format!("body.{field}"),
            "missing",
            "Field required",
            &format!("'<dict of {fields} items>'"),
        )
    }

    /// The request is well formed, but not one that this engine serves.
    pub fn rejected(param: &str, message: String) -> Self {
        Self {
            fault: Fault::Value,
            message,
            param: Some(param.to_owned()),
        }
    }

    pub fn unknown_model(asked: &str, served: &str) -> Self {
        Self {
            fault: Fault::Model,
            message: format!("The model `{asked}` does not exist. Valid aliases: {served}."),
            param: Some("model".to_owned()),
        }
    }

    pub fn full(kind: Kind) -> Self {
        let message = match kind {
            Kind::Vllm => VLLM_FULL,
            Kind::Tgi => TGI_FULL,
            Kind::Sglang => SGLANG_FULL,
        };
        Self {
            fault: Fault::Full,
            message: message.to_owned(),
            param: None,
        }
    }

    pub fn stopped() -> Self {
        Self {
            fault: Fault::Stopped,
            message: STOPPED.to_owned(),
            param: None,
        }
    }

    /// Whether a client that asked for a stream is told inside it, with a status of 200.
    pub fn is_inside(&self, kind: Kind, endpoint: Endpoint) -> bool {
        match kind {
            Kind::Vllm => self.fault == Fault::Full && endpoint == Endpoint::Chat,
            Kind::Tgi | Kind::Sglang => matches!(self.fault, Fault::Value | Fault::Full),
        }
    }

    /// The answer, where no stream has begun.
    pub fn plain(&self, kind: Kind, endpoint: Endpoint) -> Response {
        let status = self.status(kind);
        match kind {
            Kind::Vllm => (status, Json(self.vllm())).into_response(),
            // axum's own words, without JSON.
            Kind::Tgi if self.fault == Fault::Syntax => {
                let text = format!("Failed to parse the request body as JSON: {}", self.message);
                (status, text).into_response()
            }
            Kind::Tgi if self.fault == Fault::Form => {
                let text = "Failed to deserialize the JSON body into the target type";
                (status, format!("{text}: {}", self.message)).into_response()
            }
            Kind::Tgi => (status, Json(self.tgi())).into_response(),
            Kind::Sglang if self.fault == Fault::Value && endpoint == Endpoint::SglangGenerate => {
                (status, Json(json!({"error": {"message": self.message}}))).into_response()
            }
            Kind::Sglang => {
                let word = match self.fault {
                    Fault::Full => "503",
                    other => sglang_word(other),
                };
                (status, Json(self.sglang(word))).into_response()
            }
        }
    }

    /// The end of a stream that has begun with 200.
    pub fn event(&self, kind: Kind, endpoint: Endpoint, out: &mut BytesMut) {
        let native = matches!(
            endpoint,
            Endpoint::TgiGenerate { .. } | Endpoint::SglangGenerate
        );
        let (event, done) = match (kind, native) {
            (Kind::Vllm, _) => (self.vllm(), true),
            // The end of the connection is the end of TGI's own streams.
            (Kind::Tgi, true) => (self.tgi(), false),
            (Kind::Tgi, false) => {
                let error = json!({"message": self.tgi_message(), "http_status_code": 422});
                (json!({"error": error}), true)
            }
            (Kind::Sglang, true) if self.fault == Fault::Full => {
                let reason = json!({"type": "abort", "message": self.message, "status_code": 503});
                let facts = json!({"finish_reason": reason, "completion_tokens": 0});
                (json!({"text": "", "meta_info": facts}), true)
            }
            (Kind::Sglang, true) => (json!({"error": {"message": self.message}}), true),
            (Kind::Sglang, false) => (json!({"error": self.sglang(sglang_word(self.fault))}), true),
        };
        out.put_slice(format!("data: {event}\n\n").as_bytes());
        if done {
            out.put_slice(b"data: [DONE]\n\n");
        }
    }

    fn status(&self, kind: Kind) -> StatusCode {
        match (self.fault, kind) {
            (Fault::Form | Fault::Value | Fault::Model, Kind::Tgi) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            (Fault::Syntax | Fault::Form | Fault::Value, _) => StatusCode::BAD_REQUEST,
            (Fault::Model, _) => StatusCode::NOT_FOUND,
            (Fault::Full, Kind::Tgi) => StatusCode::TOO_MANY_REQUESTS,
            (Fault::Full, _) => StatusCode::SERVICE_UNAVAILABLE,
            (Fault::Stopped, Kind::Tgi) => StatusCode::FAILED_DEPENDENCY,
            (Fault::Stopped, _) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn vllm(&self) -> Value {
        let word = match self.fault {
            Fault::Syntax | Fault::Form => "Bad Request",
            Fault::Value => "BadRequestError",
            Fault::Model => "NotFoundError",
            Fault::Full => "Service Unavailable",
            Fault::Stopped => "InternalServerError",
        };
        json!({"error": {
            "message": self.message,
            "type": word,
            "param": self.param,
            "code": self.status(Kind::Vllm).as_u16(),
        }})
    }

    fn tgi_message(&self) -> String {
        match self.fault {
            Fault::Full => self.message.clone(),
            Fault::Stopped => format!("Request failed during generation: {}", self.message),
            _ => format!("Input validation error: {}", self.message),
        }
    }

    fn tgi(&self) -> Value {
        let word = match self.fault {
            Fault::Full => "overloaded",
            Fault::Stopped => "generation",
            _ => "validation",
        };
        json!({"error": self.tgi_message(), "error_type": word})
    }

    fn sglang(&self, word: &str) -> Value {
        json!({
            "object": "error",
            "message": self.message,
            "type": word,
            "param": null,
            "code": self.status(Kind::Sglang).as_u16(),
        })
    }
}

fn sglang_word(fault: Fault) -> &'static str {
    match fault {
        Fault::Syntax | Fault::Form => "Bad Request",
        Fault::Value | Fault::Model => "BadRequestError",
        Fault::Full => "SERVICE_UNAVAILABLE",
        Fault::Stopped => "InternalServerError",
    }
}
