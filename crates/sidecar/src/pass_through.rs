//! What never queues: probes, `/metrics`, `/v1/models`, and all else that only reads. Forwarded at
//! once, unwatched, whatever the queue looks like.

use crate::{
    forward::{ForwardError, Upstream},
    hop,
    respond::{self, AnswerBody},
};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Either};
use hyper::body::Incoming;

/// The engine's answer, as it is.
pub(crate) async fn forward(
    upstream: &Upstream,
    request: Request<Incoming>,
    trusted: bool,
) -> Response<AnswerBody> {
    let (mut parts, body) = request.into_parts();
    hop::strip_hop_by_hop(&mut parts.headers);
    hop::strip_privileges(&mut parts.headers, trusted);
    match upstream.send(parts, Either::Right(body)).await {
        Ok(response) => {
            let (mut parts, body) = response.into_parts();
            hop::strip_hop_by_hop(&mut parts.headers);
            let body = body.map_err(Into::into).boxed_unsync();
            Response::from_parts(parts, body)
        }
        Err(error) => unanswered(&error),
    }
}

/// No class and no outcome: this request never was admitted.
fn unanswered(error: &ForwardError) -> Response<AnswerBody> {
    let (status, kind, code) = match error {
        ForwardError::Connect(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "overloaded_error",
            "engine_unavailable",
        ),
        ForwardError::Broken(_) => (StatusCode::BAD_GATEWAY, "api_error", "engine_failed"),
    };
    error_answer(status, &error.to_string(), kind, code)
}

/// The answer to a request that no engine could take, whatever its class.
pub(crate) fn no_path() -> Response<AnswerBody> {
    let message = "the request's target is no path on this server";
    error_answer(
        StatusCode::BAD_REQUEST,
        message,
        "invalid_request_error",
        "bad_request",
    )
}

fn error_answer(status: StatusCode, message: &str, kind: &str, code: &str) -> Response<AnswerBody> {
    let body = serde_json::json!({
        "error": {"message": message, "type": kind, "param": null, "code": code}
    });
    let mut response = Response::new(respond::own_body(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = respond::DEFAULT_RETRY_AFTER.as_secs();
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
