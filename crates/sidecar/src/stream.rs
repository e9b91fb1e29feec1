//! The engine's answer on its way to the client.
//!
//! Each piece is handed on as it comes, unchanged and undelayed; a meter beside it reads along.
//! The body owns the [`Exchange`]: when the client leaves, hyper drops the body, and with it the
//! engine's connection, the seat and the tokens.

use crate::{estimate::Learned, exchange::Exchange, lifecycle::TimeUp, respond::BoxError};
use bytes::Bytes;
use fairtide_engine::{PlainAnswer, StreamMeter, Usage};
use fairtide_scheduler::{Outcome, Reason, Tokens};
use http::{HeaderMap, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};
use tokio_util::sync::WaitForCancellationFutureOwned;

/// What a stream ends with when the pod's time is up. It begins with an empty line, which ends
/// whatever event the engine was in.
const LAST_EVENT: &str = "\n\ndata: {\"error\":{\"message\":\"this pod is going away and its time \
    is up; send it again, another pod will take it\",\"type\":\"overloaded_error\",\"param\":null,\
    \"code\":\"draining\"}}\n\n";

/// An answer that is watched until its end.
pub(crate) struct WatchedAnswer<B: Body = Incoming> {
    engine: B,
    /// `None` once the outcome has been told.
    exchange: Option<Exchange>,
    meter: Meter,
    learned: Arc<Learned>,
    /// Bytes of prompt text, where the prompt is text alone.
    text_bytes: Option<u64>,
    /// The engine broke off: told to the client after what came before has been sent.
    broken: Option<BoxError>,
    cut: Cut,
}

/// The end of the drain time, after which the answer is broken off from here.
struct Cut {
    time_up: Arc<TimeUp>,
    waits: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Who is woken by it: each frame would cost a lock otherwise.
    waker: Option<Waker>,
    /// The last event was handed on, and must be written before the error.
    flushed: bool,
}

enum Meter {
    Stream(StreamMeter),
    Plain(PlainAnswer),
    /// Neither events nor JSON, or compressed: nothing can be read along.
    Blind,
}

// === impl WatchedAnswer ===

impl<B> WatchedAnswer<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    pub(crate) fn new(
        engine: B,
        headers: &HeaderMap,
        exchange: Exchange,
        learned: Arc<Learned>,
        text_bytes: Option<u64>,
        time_up: Arc<TimeUp>,
    ) -> Self {
        let mut answer = Self {
            cut: Cut::new(time_up),
            engine,
            exchange: Some(exchange),
            meter: Meter::for_answer(headers),
            learned,
            text_bytes,
            broken: None,
        };
        if answer.engine.is_end_stream() {
            answer.complete();
        }
        answer
    }

    /// Whether the answer is streamed as events.
    pub(crate) fn is_event_stream(&self) -> bool {
        matches!(self.meter, Meter::Stream(_))
    }

    fn read_along(&mut self, data: &Bytes) {
        let Some(exchange) = &mut self.exchange else {
            return;
        };
        exchange.beat();
        match &mut self.meter {
            Meter::Stream(meter) => {
                let new_output = meter.push(data) > 0;
                let tokens = stream_tokens(meter, &self.learned);
                exchange.progress(tokens, new_output);
                if meter.error().is_some() {
                    exchange.decide(Outcome::EngineFailed, Reason::EngineStream);
                }
                // The generation is over, also where the engine forgets to close.
                if meter.is_done() {
                    self.complete();
                }
            }
            Meter::Plain(answer) => answer.push(data),
            Meter::Blind => {}
        }
    }

    /// All of the answer is here. The seat is free before the client has the last byte, so that
    /// its next request doesn't find it taken.
    fn complete(&mut self) {
        let Some(mut exchange) = self.exchange.take() else {
            return;
        };
        let usage = match &mut self.meter {
            Meter::Stream(meter) => {
                meter.finish();
                exchange.set_tokens(stream_tokens(meter, &self.learned));
                if let Some(error) = meter.error() {
                    tracing::warn!(
                        request_id = %exchange.request_id(),
                        error,
                        "the engine reported an error inside its stream"
                    );
                    exchange.decide(Outcome::EngineFailed, Reason::EngineStream);
                }
                if meter.tokens_per_event().is_some() {
                    let tokens = meter.usage().output.unwrap_or(0);
                    self.learned.stream(meter.output_events(), tokens);
                }
                Some(meter.usage())
            }
            Meter::Plain(answer) => {
                let usage = answer.usage();
                if exchange.outcome().is_none() {
                    exchange.set_tokens(tokens(usage.unwrap_or_default()));
                }
                usage
            }
            Meter::Blind => None,
        };
        if let (Some(bytes), Some(tokens)) = (self.text_bytes, usage.and_then(|u| u.prompt)) {
            self.learned.prompt(bytes, tokens);
        }
        // Keeps what was decided before: an engine's own error status.
        let reason = exchange.reason();
        exchange.decide(Outcome::Completed, reason);
    }

    /// The time is up. A stream is told so in its own words before it breaks off.
    fn cut_off(&mut self) -> Option<Frame<Bytes>> {
        let mut exchange = self.exchange.take()?;
        exchange.decide(Outcome::Draining, Reason::Drain);
        self.broken = Some("the pod is going away".into());
        self.is_event_stream()
            .then(|| Frame::data(Bytes::from_static(LAST_EVENT.as_bytes())))
    }

    fn break_off(&mut self, error: BoxError) {
        if let Some(mut exchange) = self.exchange.take() {
            tracing::warn!(
                request_id = %exchange.request_id(),
                %error,
                "the engine broke off its answer"
            );
            exchange.decide(Outcome::EngineFailed, Reason::EngineStream);
        }
        self.broken = Some(error);
    }
}

impl<B> Body for WatchedAnswer<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Some(error) = this.broken.take() {
            if this.cut.flushed {
                this.cut.flushed = false;
                this.broken = Some(error);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            return Poll::Ready(Some(Err(error)));
        }
        if this.exchange.is_some() && this.cut.is_due(cx) {
            if let Some(last) = this.cut_off() {
                this.cut.flushed = true;
                return Poll::Ready(Some(Ok(last)));
            }
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match ready!(Pin::new(&mut this.engine).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    this.read_along(data);
                }
                if this.engine.is_end_stream() {
                    this.complete();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                // The client must see a broken stream, not a short one; but an error makes hyper
                // drop what it hasn't written yet. One round later that has been flushed.
                this.break_off(error.into());
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => {
                this.complete();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.broken.is_none() && self.engine.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.engine.size_hint()
    }
}

// === impl Cut ===

impl Cut {
    fn new(time_up: Arc<TimeUp>) -> Self {
        let waits = Box::pin(time_up.token().clone().cancelled_owned());
        Self {
            time_up,
            waits,
            waker: None,
            flushed: false,
        }
    }

    fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        let known = self.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker()));
        if known {
            return self.time_up.is_up();
        }
        self.waker = Some(cx.waker().clone());
        self.waits.as_mut().poll(cx).is_ready()
    }
}

// === impl Meter ===

impl Meter {
    fn for_answer(headers: &HeaderMap) -> Self {
        if headers.contains_key(header::CONTENT_ENCODING) {
            return Meter::Blind;
        }
        let kind = headers.get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("text/event-stream") {
            Meter::Stream(StreamMeter::default())
        } else if kind.eq_ignore_ascii_case("application/json") {
            Meter::Plain(PlainAnswer::default())
        } else {
            Meter::Blind
        }
    }
}

fn stream_tokens(meter: &StreamMeter, learned: &Learned) -> Tokens {
    let usage = meter.usage();
    Tokens {
        output: Some(meter.output_tokens(learned.tokens_per_event())),
        ..tokens(usage)
    }
}

fn tokens(usage: Usage) -> Tokens {
    Tokens {
        prompt: usage.prompt,
        cached: usage.cached,
        output: usage.output,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admission::{Admission, Binding},
        bootstrap,
        exchange::Observers,
        metrics::Metrics,
        readiness::Pulse,
        tenant::Tenant,
    };
    use fairtide_policy::Tenancy;
    use fairtide_telemetry::metrics::registry;
    use http::{Request, Response};
    use http_body_util::StreamBody;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use parking_lot::Mutex;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::task::TaskTracker;

    fn exchange() -> Exchange {
        let settings = bootstrap::policy("ns", "pool")
            .settings()
            .expect("a policy");
        let (admission, _task) = Admission::spawn(settings, Binding::Enforced, 1);
        let observers = Observers {
            admission,
            metrics: Metrics::register(&mut registry("test", "1")),
            decisions: Arc::default(),
            pulse: Pulse::new(),
        };
        let tenant = Tenant::find(&HeaderMap::new(), false, &Tenancy::default());
        let alive = TaskTracker::new().token();
        Exchange::new(observers, "id".into(), "class".into(), &tenant, alive)
    }

    /// The last piece and the error come together, as they may between two threads.
    #[tokio::test]
    async fn what_came_before_an_error_is_written_out() {
        let frames: [Result<Frame<Bytes>, BoxError>; 2] = [
            Ok(Frame::data(Bytes::from_static(b"last words"))),
            Err("broken".into()),
        ];
        let engine = StreamBody::new(tokio_stream::iter(frames));
        let headers = HeaderMap::new();
        let answer = WatchedAnswer::new(
            engine,
            &headers,
            exchange(),
            Arc::default(),
            None,
            Arc::default(),
        );
        let (mut client, server) = tokio::io::duplex(4096);
        let answer = Mutex::new(Some(answer));
        let service = service_fn(move |_: Request<Incoming>| {
            let answer = answer.lock().take().expect("one request");
            async move { Ok::<_, std::convert::Infallible>(Response::new(answer)) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(server), service);
        tokio::spawn(connection);
        client
            .write_all(b"POST / HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .expect("room");
        let mut text = String::new();
        client.read_to_string(&mut text).await.expect("text");
        assert!(text.contains("last words"), "{text}");
        assert!(!text.contains("\r\n0\r\n"), "no clean end: {text}");
    }
}
