//! Sends requests as an OpenAI client does, and watches what comes back.
//!
//! One connection per request in flight, kept for later ones. No retries: what is refused or fails
//! counts as that.

use super::{
    plan::Offered,
    scenario::{ClassLoad, Scenario},
    seen::{End, Seen},
    timeline::Timeline,
};
use bytes::Bytes;
use fairtide_engine::{PlainAnswer, StreamMeter};
use fairtide_scheduler::Outcome;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use serde_json::json;
use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Engines close idle connections after 5 s; a request must not meet that moment.
const KEEP_IDLE: Duration = Duration::from_secs(3);

/// Bytes of prompt per token, by which engines are simulated and tokens estimated.
const BYTES_PER_TOKEN: usize = 4;

/// The bytes of an answer that are kept for messages.
const SHOWN: usize = 200;

/// Sends the requests of one run.
#[derive(Clone, Debug)]
pub(super) struct Client {
    http: HttpClient<HttpConnector, Full<Bytes>>,
    targets: Arc<[Uri]>,
    scenario: Arc<Scenario>,
    timeline: Timeline,
    start: Instant,
    end: Instant,
}

// === impl Client ===

impl Client {
    pub fn new(
        scenario: Arc<Scenario>,
        targets: &[Uri],
        timeline: Timeline,
        start: Instant,
    ) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let http = HttpClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEEP_IDLE)
            .build(connector);
        Self {
            http,
            targets: targets.into(),
            end: start + scenario.duration + scenario.drain,
            scenario,
            timeline,
            start,
        }
    }

    /// Sends one request and stays with it until it ends, at the latest when the run does.
    pub async fn send(&self, offered: Offered) -> Seen {
        let born = self.start + offered.at;
        let mut seen = Seen::nothing(offered);
        seen.end = match self.exchange(&mut seen, born).await {
            Ok(end) => end,
            Err(Left) => End::Cancelled,
        };
        seen.ended = born.elapsed();
        seen
    }

    async fn exchange(&self, seen: &mut Seen, born: Instant) -> Result<End, Left> {
        let class = &self.scenario.classes[seen.offered.class];
        let first_by = match class.patience {
            Some(patience) => self.end.min(born + patience),
            None => self.end,
        };
        let request = match self.request(class, seen.offered) {
            Ok(request) => request,
            Err(error) => return Ok(End::Failed(error.to_string())),
        };
        let response = match by(first_by, self.http.request(request)).await? {
            Ok(response) => response,
            Err(error) => return Ok(End::Failed(in_full(&error))),
        };
        seen.queue_ms = number(response.headers(), "x-fairtide-queue-ms");
        let outcome = text(response.headers(), "x-fairtide-outcome");
        let reason = text(response.headers(), "x-fairtide-reason");
        if !response.status().is_success() {
            let refused = outcome.as_deref().and_then(Outcome::from_word);
            if let Some(outcome) = refused.filter(|outcome| outcome.is_refusal()) {
                // Read to the end, so that the connection can be used again.
                let _ = by(self.end, response.into_body().collect()).await?;
                return Ok(End::Refused {
                    outcome: outcome.as_str().to_owned(),
                    reason: reason.unwrap_or_else(|| "no reason given".to_owned()),
                });
            }
            return Ok(End::Failed(self.error_text(response).await?));
        }
        if class.stream {
            self.watch_stream(response, seen, born, first_by).await
        } else {
            self.watch_plain(response, seen, born, first_by).await
        }
    }

    async fn watch_stream(
        &self,
        response: Response<Incoming>,
        seen: &mut Seen,
        born: Instant,
        first_by: Instant,
    ) -> Result<End, Left> {
        let mut body = response.into_body();
        let mut meter = StreamMeter::default();
        loop {
            let deadline = match seen.first_token {
                None => first_by,
                Some(_) => self.end,
            };
            match by(deadline, body.frame()).await? {
                Some(Ok(frame)) => {
                    let Ok(bytes) = frame.into_data() else {
                        continue;
                    };
                    let tokens = meter.push(&bytes);
                    self.count(seen, tokens, born);
                }
                Some(Err(error)) => return Ok(End::Failed(in_full(&error))),
                None => break,
            }
        }
        Ok(match meter.error() {
            Some(error) => End::Failed(error.to_owned()),
            None if meter.is_done() => End::Completed,
            None => End::Failed("the stream ended without [DONE]".to_owned()),
        })
    }

    async fn watch_plain(
        &self,
        response: Response<Incoming>,
        seen: &mut Seen,
        born: Instant,
        by_then: Instant,
    ) -> Result<End, Left> {
        let body = match by(by_then, response.into_body().collect()).await? {
            Ok(body) => body.to_bytes(),
            Err(error) => return Ok(End::Failed(in_full(&error))),
        };
        let mut answer = PlainAnswer::default();
        answer.push(&body);
        match answer.usage().and_then(|usage| usage.output) {
            Some(tokens) => {
                self.count(seen, tokens, born);
                Ok(End::Completed)
            }
            None => Ok(End::Failed("the answer states no usage".to_owned())),
        }
    }

    fn count(&self, seen: &mut Seen, tokens: u64, born: Instant) {
        let now = Instant::now();
        seen.tokens(tokens, now - born);
        self.timeline
            .add(seen.offered.class, tokens, now - self.start);
    }

    fn request(
        &self,
        class: &ClassLoad,
        offered: Offered,
    ) -> Result<Request<Full<Bytes>>, http::Error> {
        let target = &self.targets[offered.number % self.targets.len()];
        let mut body = json!({
            "messages": [{"role": "user", "content": prompt(offered)}],
            "max_tokens": offered.output_tokens,
            // Real models would end most answers before.
            "ignore_eos": true,
            "stream": class.stream,
        });
        if let Some(model) = &self.scenario.model {
            body["model"] = model.as_str().into();
        }
        let mut request = Request::post(format!("{target}v1/chat/completions"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_string())))?;
        let tenant = offered.tenant.and_then(|at| class.tenants.get(at));
        let tenant_headers = tenant.map(|tenant| &tenant.headers);
        for (name, value) in tenant_headers.into_iter().chain([&class.headers]).flatten() {
            let name = HeaderName::try_from(name)?;
            request
                .headers_mut()
                .insert(name, HeaderValue::try_from(value)?);
        }
        Ok(request)
    }

    async fn error_text(&self, response: Response<Incoming>) -> Result<String, Left> {
        let status = response.status();
        let body = by(self.end, response.into_body().collect()).await?;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned();
        Ok(format!("{status}: {shown}"))
    }
}

/// The client has given up on the request.
struct Left;

async fn by<T>(deadline: Instant, future: impl Future<Output = T>) -> Result<T, Left> {
    tokio::time::timeout_at(deadline, future)
        .await
        .map_err(|_| Left)
}

/// A prompt of the length wanted that begins like no other, so that no prefix cache knows it.
fn prompt(offered: Offered) -> String {
    let mut text = format!("{}-{} ", offered.class, offered.number);
    let bytes = offered.prompt_tokens as usize * BYTES_PER_TOKEN;
    while text.len() < bytes {
        text.push_str("When does the tide turn? ");
    }
    text.truncate(bytes);
    text
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

fn number(headers: &HeaderMap, name: &str) -> Option<f64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// An error and what it comes from: hyper's own message says only that sending failed.
pub(crate) fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
