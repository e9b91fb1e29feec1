//! The path of a request through the sidecar, in the order of travel.
//!
//! ```text
//! accept → pass through, or: head → body → class and tenant → estimate → queue → engine → answer
//! ```

use crate::{
    admission::Verdict,
    body::{self, BodyError, BodyLimits},
    classify::Traits,
    estimate::Learned,
    exchange::{Exchange, Observers},
    forward::{self, ForwardError, Upstream, UpstreamBody},
    hop,
    in_force::PolicySeat,
    lifecycle::{Lifecycle, Phase},
    pass_through,
    request_id::request_id,
    respond::{self, AnswerBody},
    stream::WatchedAnswer,
    tenant::{self, Tenant},
};
use fairtide_engine::JsonBody;
use fairtide_policy::Mode;
use fairtide_scheduler::{Outcome, Reason, Refusal};
use http::{HeaderValue, Request, Response, Version, header, request::Parts};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Incoming};
use std::{net::IpAddr, sync::Arc};
use tokio_util::task::TaskTracker;

/// All that a request meets on its way.
#[derive(Debug)]
pub(crate) struct RequestPath {
    pub(crate) policy: PolicySeat,
    pub(crate) observers: Observers,
    pub(crate) upstream: Upstream,
    pub(crate) bodies: BodyLimits,
    pub(crate) learned: Arc<Learned>,
    /// Where the pod is on its way out.
    pub(crate) lifecycle: Arc<Lifecycle>,
    /// Counts the exchanges that live.
    pub(crate) exchanges: TaskTracker,
}

/// A request that is ready for the engine.
struct Ready {
    parts: Parts,
    body: UpstreamBody,
    exchange: Exchange,
    version: Version,
    text_bytes: Option<u64>,
}

// === impl RequestPath ===

impl RequestPath {
    /// The answer to a request from `peer`.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Response<AnswerBody> {
        let version = request.version();
        let mut response = self.answer_open(request, peer).await;
        // The client's next request had better find another pod.
        if version < Version::HTTP_2 && self.lifecycle.phase() > Phase::Serving {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response
    }

    async fn answer_open(&self, request: Request<Incoming>, peer: IpAddr) -> Response<AnswerBody> {
        if !forward::has_path(request.uri()) {
            return pass_through::no_path();
        }
        let policy = self.policy.load();
        let trusted = tenant::is_trusted(peer, &policy.policy.tenancy);
        if !fairtide_engine::queues(request.method().as_str()) {
            drop(policy);
            self.observers.metrics.passed_through.inc();
            return pass_through::forward(&self.upstream, request, trusted).await;
        }

        let (mut parts, body) = request.into_parts();
        let version = parts.version;
        let tenant = Tenant::find(&parts.headers, trusted, &policy.policy.tenancy);
        let class = policy.classifier.class(Traits {
            parts: &parts,
            tenant: &tenant,
            trusted,
            body: None,
        });
        let bypass = policy.mode.mode == Mode::Bypass;
        // The body may take its time; the policy that rules is the one when it is complete.
        drop(policy);
        let mut exchange = Exchange::new(
            self.observers.clone(),
            request_id(&mut parts.headers),
            class,
            &tenant,
            self.exchanges.token(),
        );

        if self.lifecycle.phase() >= Phase::Closing {
            body::linger(body, &parts.headers);
            return respond::refuse(&mut exchange, draining(), version, None);
        }
        if bypass {
            let size = body.size_hint().exact().unwrap_or_default();
            let estimate = size as f64 * self.learned.tokens_per_byte();
            exchange.pass(&tenant, estimate as u64);
            let ready = Ready {
                parts,
                body: Either::Right(body),
                exchange,
                version,
                text_bytes: None,
            };
            return self.send(ready, trusted).await;
        }
        match self.queue(parts, body, exchange, &tenant, trusted).await {
            Ok(ready) => self.send(ready, trusted).await,
            Err(response) => response,
        }
    }

    /// Reads the body, finds the class, and waits for a start.
    async fn queue(
        &self,
        parts: Parts,
        body: Incoming,
        mut exchange: Exchange,
        tenant: &Tenant,
        trusted: bool,
    ) -> Result<Ready, Response<AnswerBody>> {
        let version = parts.version;
        let time_up = self.lifecycle.time_up();
        let read = tokio::select! {
            read = self.bodies.read(body) => read,
            () = time_up.token().cancelled() => {
                return Err(respond::refuse(&mut exchange, draining(), version, None));
            }
        };
        let held = match read {
            Ok(held) => held,
            Err(BodyError::Refused(refusal, rest)) => {
                body::linger(rest, &parts.headers);
                let hint = format!(
                    "at most {} bytes (--max-body-bytes) are taken",
                    self.bodies.max_body
                );
                let hint = (refusal.reason == Reason::BodyLimit).then_some(hint.as_str());
                return Err(respond::refuse(&mut exchange, refusal, version, hint));
            }
            Err(BodyError::Gone) => {
                // Most likely nobody is there to read the answer; a broken framing is the rest.
                exchange.decide(Outcome::CancelledQueued, Reason::ClientLeft);
                let cut = Some("its body ended before it was complete");
                return Err(respond::refuse(&mut exchange, cut_upload(), version, cut));
            }
        };
        let (class, estimate) = {
            let json = JsonBody::parse(&held.bytes);
            let class = self.policy.load().classifier.class(Traits {
                parts: &parts,
                tenant,
                trusted,
                body: json.as_ref(),
            });
            let size = held.bytes.len() as u64;
            (class, self.learned.estimate(json.as_ref(), size))
        };
        exchange.classify(class, estimate.prompt_tokens);
        let size = held.bytes.len() as u64;
        let verdict = exchange
            .admit(tenant, estimate.output_cap, estimate.streamed, size)
            .await;
        match verdict {
            Verdict::Start { reason, .. } => exchange.start(reason),
            Verdict::Refuse { refusal, .. } => {
                return Err(respond::refuse(&mut exchange, refusal, version, None));
            }
        }
        Ok(Ready {
            parts,
            body: Either::Left(Full::new(held.release())),
            exchange,
            version,
            text_bytes: estimate.text_bytes,
        })
    }

    /// Sends a started request to the engine, and its answer back.
    async fn send(&self, ready: Ready, trusted: bool) -> Response<AnswerBody> {
        let Ready {
            mut parts,
            body,
            mut exchange,
            version,
            text_bytes,
        } = ready;
        hop::strip_hop_by_hop(&mut parts.headers);
        hop::strip_privileges(&mut parts.headers, trusted);
        let time_up = self.lifecycle.time_up();
        let sent = tokio::select! {
            sent = self.upstream.send(parts, body) => sent,
            () = time_up.token().cancelled() => {
                return respond::refuse(&mut exchange, draining(), version, None);
            }
        };
        let response = match sent {
            Ok(response) => response,
            Err(error @ ForwardError::Connect(_)) => {
                // That the engine is down is said once, by the readiness check.
                exchange.cost_nothing();
                let request_id = exchange.request_id();
                tracing::debug!(%request_id, error = &error as &dyn std::error::Error, "no answer");
                return respond::refuse(&mut exchange, unanswered(&error), version, None);
            }
            Err(error) => {
                exchange.cost_nothing();
                let request_id = exchange.request_id();
                tracing::warn!(%request_id, error = &error as &dyn std::error::Error, "no answer");
                return respond::refuse(&mut exchange, unanswered(&error), version, None);
            }
        };
        let (mut parts, body) = response.into_parts();
        hop::strip_hop_by_hop(&mut parts.headers);
        if parts.status.is_client_error() || parts.status.is_server_error() {
            exchange.decide(Outcome::EngineRejected, Reason::EngineStatus);
            exchange.cost_nothing();
        }
        respond::add_headers(&mut parts.headers, &exchange);
        let learned = self.learned.clone();
        let answer =
            WatchedAnswer::new(body, &parts.headers, exchange, learned, text_bytes, time_up);
        if answer.is_event_stream() {
            keep_unbuffered(&mut parts.headers);
        }
        Response::from_parts(parts, answer.boxed_unsync())
    }
}

/// Proxies in front of a pod hold a stream back until they are told not to.
fn keep_unbuffered(headers: &mut http::HeaderMap) {
    headers
        .entry("x-accel-buffering")
        .or_insert(HeaderValue::from_static("no"));
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache"));
}

fn unanswered(error: &ForwardError) -> Refusal {
    let (outcome, reason, retry_after) = match error {
        ForwardError::Connect(_) => (
            Outcome::EngineUnavailable,
            Reason::EngineConnect,
            Some(respond::DEFAULT_RETRY_AFTER),
        ),
        ForwardError::Broken(_) => (Outcome::EngineFailed, Reason::EngineStream, None),
    };
    Refusal {
        outcome,
        reason,
        retry_after,
        storm: false,
    }
}

fn draining() -> Refusal {
    Refusal {
        outcome: Outcome::Draining,
        reason: Reason::Drain,
        retry_after: Some(respond::DEFAULT_RETRY_AFTER),
        storm: false,
    }
}

fn cut_upload() -> Refusal {
    Refusal {
        outcome: Outcome::BadRequest,
        reason: Reason::ClientLeft,
        retry_after: None,
        storm: false,
    }
}
