//! Errors in the shapes that vLLM gives them, so that clients and proxies parse the real thing.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use serde_json::{Value, json};

/// An answer in place of a completion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ApiError {
    pub status: StatusCode,
    pub kind: &'static str,
    pub message: String,
    pub param: Option<String>,
}

// === impl ApiError ===

impl ApiError {
    /// The body doesn't have the form of a request. `location` is a path such as
    /// `body.max_tokens`, `kind` pydantic's name of the mistake.
    pub fn invalid(location: &str, kind: &str, message: &str, input: &str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: "Bad Request",
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
            status: StatusCode::BAD_REQUEST,
            kind: "BadRequestError",
            message,
            param: Some(param.to_owned()),
        }
    }

    pub fn unknown_model(asked: &str, served: &str) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundError",
            message: format!("The model `{asked}` does not exist. Valid aliases: {served}."),
            param: Some("model".to_owned()),
        }
    }

    /// The engine stops with the request in it.
    pub fn stopped() -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            kind: "InternalServerError",
            message: "EngineCore encountered an issue. See stack trace (above) for the root cause."
                .to_owned(),
            param: None,
        }
    }

    pub fn json(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.status.as_u16(),
        }})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.json())).into_response()
    }
}
