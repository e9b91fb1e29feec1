//! The one place that makes answers of the sidecar's own, and adds its headers to the engine's.
//!
//! Which headers say what: `x-request-id`, `x-fairtide-class`, `x-fairtide-reason` and
//! `x-fairtide-queue-ms` are on each answer to an admitted request. `x-fairtide-outcome` is there
//! where the outcome is known when the headers go: on refusals, and on the engine's own errors. An
//! answer that begins well has no outcome yet; it may still break off, or its client may leave.

use crate::exchange::Exchange;
use bytes::Bytes;
use fairtide_api::names::{CLASS_HEADER, OUTCOME_HEADER, QUEUE_MS_HEADER, REASON_HEADER};
use fairtide_scheduler::{Outcome, Reason, Refusal};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use rand::Rng;
use std::{error::Error, time::Duration};

/// Any error of a body.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// The body of an answer, whoever made it.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// The longest wait that clients are told: beyond two minutes the usual SDKs don't retry at all,
/// and up to a minute they keep to what they are told.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// What is told where the limit that refused can't say: how long a restart of an engine's HTTP
/// server, or a roll of a pod, keeps a client waiting at the least.
pub(crate) const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(5);

/// The answer to a request that is refused or whose engine failed. `hint` adds to the message what
/// only the caller knows.
pub(crate) fn refuse(
    exchange: &mut Exchange,
    refusal: Refusal,
    version: Version,
    hint: Option<&str>,
) -> Response<AnswerBody> {
    exchange.decide(refusal.outcome, refusal.reason);
    let status = status(refusal.outcome);
    let retry = retry_after(&refusal, status, &mut rand::rng());
    let message = message(exchange.class(), &refusal, retry, hint);
    let body = serde_json::json!({
        "error": {
            "message": message,
            "type": error_type(status),
            "param": null,
            "code": refusal.outcome.as_str(),
        }
    });
    let mut response = Response::new(own_body(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    retry_headers(headers, &refusal, status, retry);
    // The client's next connection may reach another pod, which has room.
    let capacity = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    if capacity && version < Version::HTTP_2 {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    add_headers(headers, exchange);
    response
}

/// Adds what Fairtide says of an answer.
pub(crate) fn add_headers(headers: &mut HeaderMap, exchange: &Exchange) {
    if let Ok(id) = HeaderValue::from_str(exchange.request_id()) {
        headers.insert("x-request-id", id);
    }
    if let Ok(class) = HeaderValue::from_str(exchange.class()) {
        headers.insert(CLASS_HEADER, class);
    }
    let reason = exchange.reason().as_str();
    headers.insert(REASON_HEADER, HeaderValue::from_static(reason));
    let queue_ms = exchange.queued().as_millis() as u64;
    headers.insert(QUEUE_MS_HEADER, queue_ms.into());
    if let Some(outcome) = exchange.outcome() {
        let outcome = HeaderValue::from_static(outcome.as_str());
        headers.insert(OUTCOME_HEADER, outcome);
    }
}

/// A body of the sidecar's own.
pub(crate) fn own_body(text: impl Into<Bytes>) -> AnswerBody {
    Full::new(text.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn status(outcome: Outcome) -> StatusCode {
    let code = outcome.status().unwrap_or(500);
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn error_type(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 | 413 => "invalid_request_error",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        _ => "api_error",
    }
}

/// What the client is told to wait. Jitter only adds: nobody comes back before there is room, and
/// those refused together don't come back together.
fn retry_after(refusal: &Refusal, status: StatusCode, rng: &mut impl Rng) -> Option<Duration> {
    let honest = match (refusal.retry_after, status) {
        (Some(wait), _) => wait,
        (None, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) => {
            DEFAULT_RETRY_AFTER
        }
        (None, _) => return None,
    };
    if honest > MAX_RETRY_AFTER {
        return Some(honest);
    }
    let spread = honest.mul_f64(0.2).max(Duration::from_millis(500));
    let wait = honest + spread.mul_f64(rng.random::<f64>());
    Some(wait.min(MAX_RETRY_AFTER))
}

fn retry_headers(
    headers: &mut HeaderMap,
    refusal: &Refusal,
    status: StatusCode,
    retry: Option<Duration>,
) {
    if let Some(retry) = retry {
        headers.insert(header::RETRY_AFTER, seconds(retry).into());
        let millis = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
        headers.insert("retry-after-ms", millis.max(1).into());
    }
    let never = matches!(
        status,
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE
    );
    let far = retry.is_some_and(|retry| retry > MAX_RETRY_AFTER);
    if never || far || refusal.storm {
        headers.insert("x-should-retry", HeaderValue::from_static("false"));
    }
}

/// Whole seconds, at least one, never less than the wait.
fn seconds(wait: Duration) -> u64 {
    let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    whole.max(1)
}

/// Which limit refused, and what to do. Limits are called by their names in the API.
fn message(class: &str, refusal: &Refusal, retry: Option<Duration>, hint: Option<&str>) -> String {
    let what = match refusal.reason {
        Reason::QueueRequests => {
            "the queue is full (queue.maxRequests); send less at once, or later"
        }
        Reason::QueueTokens => "the queue is full (queue.maxTokens); send less at once, or later",
        Reason::QueueBytes => "the queue is full (queue.maxBytes); send less at once, or later",
        Reason::QueueTenant => {
            "this tenant has too many requests waiting (queue.perTenant); send fewer at once"
        }
        Reason::QueueTtl if refusal.outcome == Outcome::WaitTooLong => {
            "the wait would be longer than queue.ttl allows; send it later"
        }
        Reason::QueueTtl => "it waited as long as queue.ttl allows; send it later",
        Reason::Bucket => "the rate limit (bucket) is used up; send it later",
        Reason::BucketCapacity => {
            "it is larger than a full rate limit (bucket.burst); lower max_tokens or shorten the prompt"
        }
        Reason::ContextWindow => {
            "its prompt is far larger than the model's context window; shorten it"
        }
        Reason::KvCache => "its prompt is far larger than the engine's KV cache; shorten it",
        Reason::BodyLimit => "the request's body is too large",
        Reason::PodMemory => "this pod's memory for waiting requests is used up; send it later",
        Reason::Drain => "this pod is going away; send it again, another pod will take it",
        Reason::EngineConnect => {
            "the engine behind this pod can't be reached, or isn't ready yet; send it later"
        }
        Reason::EngineStream => "the engine broke off before it answered",
        _ => "the request can't be served as it is",
    };
    let mut text = format!("class {class}: {what}");
    if let Some(hint) = hint {
        text = format!("{text}: {hint}");
    }
    if let Some(retry) = retry {
        text = format!("{text} (retry after {} s)", seconds(retry));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::SmallRng};

    fn refusal(outcome: Outcome, retry_after: Option<Duration>) -> Refusal {
        Refusal {
            outcome,
            reason: Reason::Bucket,
            retry_after,
            storm: false,
        }
    }

    fn headers(refusal: &Refusal) -> (Option<u64>, Option<u64>, bool) {
        let mut rng = SmallRng::seed_from_u64(7);
        let status = status(refusal.outcome);
        let mut headers = HeaderMap::new();
        let retry = retry_after(refusal, status, &mut rng);
        retry_headers(&mut headers, refusal, status, retry);
        let number = |name| Some(headers.get(name)?.to_str().ok()?.parse().expect("a number"));
        let stop = headers.get("x-should-retry").is_some_and(|v| v == "false");
        (number("retry-after"), number("retry-after-ms"), stop)
    }

    #[test]
    fn nobody_is_told_to_come_back_too_early() {
        let mut rng = SmallRng::seed_from_u64(1);
        for millis in [0, 1, 400, 999, 1000, 1001, 17_300, 59_000, 60_000] {
            let honest = Duration::from_millis(millis);
            let refusal = refusal(Outcome::BucketEmpty, Some(honest));
            for _ in 0..200 {
                let told =
                    retry_after(&refusal, StatusCode::TOO_MANY_REQUESTS, &mut rng).expect("a wait");
                assert!(told >= honest, "{told:?} < {honest:?}");
                assert!((1..=60).contains(&seconds(told)), "{told:?}");
                assert!(Duration::from_secs(seconds(told)) >= told);
            }
        }
    }

    #[test]
    fn above_a_minute_the_true_value_stands_and_nobody_is_to_retry() {
        let long = refusal(Outcome::BucketEmpty, Some(Duration::from_millis(90_500)));
        assert_eq!(headers(&long), (Some(91), Some(90_500), true));
    }

    #[test]
    fn what_can_never_fit_is_not_to_be_retried() {
        for outcome in [Outcome::TooLarge, Outcome::BadRequest] {
            assert_eq!(headers(&refusal(outcome, None)), (None, None, true));
        }
    }

    #[test]
    fn in_a_storm_nobody_is_to_retry() {
        let mut storm = refusal(Outcome::QueueFull, Some(Duration::from_secs(2)));
        assert!(!headers(&storm).2);
        storm.storm = true;
        assert!(headers(&storm).2);
    }

    #[test]
    fn every_capacity_refusal_says_when_to_come_back() {
        for &outcome in Outcome::ALL {
            let status = outcome.status();
            let (after, millis, _) = headers(&refusal(outcome, None));
            let capacity = matches!(status, Some(429 | 503));
            assert_eq!(after.is_some(), capacity, "{outcome}");
            assert_eq!(millis.is_some(), capacity, "{outcome}");
        }
    }
}
