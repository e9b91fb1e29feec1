//! An engine that does what a test tells it, request by request.
//!
//! Each request waits until the test takes it by [`ScriptedEngine::next`] and answers, streams,
//! or breaks it off; so a test decides what is in flight at each moment, and needs no sleeps.
//! `GET` is answered at once and counted nowhere: probes and metric pages don't queue.

use crate::free_port;
use anyhow::Context;
use bytes::Bytes;
use futures::channel::mpsc as body_channel;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
};
use tokio_util::sync::{CancellationToken, DropGuard};

type Body = BoxBody<Bytes, std::io::Error>;

/// The server. It stops on drop.
#[derive(Debug)]
pub struct ScriptedEngine {
    address: SocketAddr,
    shared: Arc<Shared>,
    calls: mpsc::UnboundedReceiver<Call>,
    running: Option<DropGuard>,
}

#[derive(Debug)]
struct Shared {
    counts: Mutex<Counts>,
    metrics: Mutex<String>,
    calls: mpsc::UnboundedSender<Call>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    active: usize,
    max_active: usize,
    total: usize,
}

/// A request that waits for its answer. Dropped without one, its connection is closed.
#[derive(Debug)]
pub struct Call {
    /// Method, path and headers as they arrived.
    pub head: Parts,
    /// The whole body.
    pub body: Bytes,
    answer: oneshot::Sender<Response<Body>>,
    gone: CancellationToken,
}

/// An answer that is under way. Dropped without [`Streaming::end`], it breaks off in its middle.
#[derive(Debug)]
pub struct Streaming {
    frames: body_channel::UnboundedSender<std::io::Result<Frame<Bytes>>>,
    gone: CancellationToken,
    ended: bool,
}

/// Counts a request as active from its arrival until its answer is through or its client left:
/// what the connection polls holds it, and hyper drops that in both cases.
#[derive(Debug)]
struct Place {
    shared: Arc<Shared>,
    _gone: DropGuard,
}

// === impl ScriptedEngine ===

impl ScriptedEngine {
    /// Starts one on a free loopback port.
    pub async fn start() -> anyhow::Result<Self> {
        let (sender, calls) = mpsc::unbounded_channel();
        let shared = Shared {
            counts: Mutex::default(),
            metrics: Mutex::default(),
            calls: sender,
        };
        let mut this = Self {
            address: (Ipv4Addr::LOCALHOST, free_port()?).into(),
            shared: Arc::new(shared),
            calls,
            running: None,
        };
        this.come_up().await?;
        Ok(this)
    }

    /// Where it listens; the same after it was down.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What `GET /metrics` says from now on.
    pub fn set_metrics(&self, page: impl Into<String>) {
        *self.shared.metrics.lock() = page.into();
    }

    /// Breaks all connections and refuses new ones.
    pub fn go_down(&mut self) {
        self.running = None;
    }

    /// Listens, again.
    pub async fn come_up(&mut self) -> anyhow::Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        let stop = CancellationToken::new();
        self.running = Some(stop.clone().drop_guard());
        tokio::spawn(accept(listener, self.shared.clone(), stop));
        Ok(())
    }

    /// The next request that has arrived.
    pub async fn next(&mut self, deadline: Duration) -> anyhow::Result<Call> {
        tokio::time::timeout(deadline, self.calls.recv())
            .await
            .context("no request arrived at the engine")?
            .context("the engine holds the sender")
    }

    /// A request that has arrived already, if there is one.
    pub fn try_next(&mut self) -> Option<Call> {
        self.calls.try_recv().ok()
    }

    /// Requests whose answer isn't through.
    pub fn active(&self) -> usize {
        self.shared.counts.lock().active
    }

    /// The most that were active at once.
    pub fn max_active(&self) -> usize {
        self.shared.counts.lock().max_active
    }

    /// Forgets about the past: [`ScriptedEngine::max_active`] counts from now on.
    pub fn reset_max_active(&self) {
        let mut counts = self.shared.counts.lock();
        counts.max_active = counts.active;
    }

    /// Requests that have arrived since the start.
    pub fn total(&self) -> usize {
        self.shared.counts.lock().total
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        if let Ok((stream, _)) = stream {
            let connection = serve(stream, shared.clone());
            let stop = stop.clone();
            tokio::spawn(stop.run_until_cancelled_owned(connection));
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = hyper::service::service_fn(move |request| respond(request, shared.clone()));
    // An error is a client that left, or a connection that the test broke.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn respond(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> anyhow::Result<Response<Body>> {
    if request.method() == Method::GET {
        let page = match request.uri().path() {
            "/metrics" => shared.metrics.lock().clone(),
            _ => "{}".to_owned(),
        };
        return Ok(Response::new(full(page)));
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let gone = CancellationToken::new();
    let place = Place::take(shared.clone(), gone.clone());
    let (answer, answered) = oneshot::channel();
    let call = Call {
        head,
        body,
        answer,
        gone,
    };
    let _ = shared.calls.send(call);
    let response = answered.await.context("the test dropped the request")?;
    Ok(response.map(|body| {
        // The place is given back with the body.
        body.map_frame(move |frame| {
            let _ = &place;
            frame
        })
        .boxed()
    }))
}

fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into())
        .map_err(|never| match never {})
        .boxed()
}

// === impl Call ===

impl Call {
    /// The body as JSON.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// Answers as a whole.
    pub fn answer(self, status: StatusCode, body: impl Into<Bytes>) {
        let mut response = Response::new(full(body));
        *response.status_mut() = status;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        self.answer_with(response);
    }

    fn answer_with(self, response: Response<Body>) {
        // A client that left takes no answer.
        let _ = self.answer.send(response);
    }

    /// Answers 200 and begins a stream of server-sent events.
    pub fn stream(self) -> Streaming {
        let (frames, body) = body_channel::unbounded();
        let mut response = Response::new(StreamBody::new(body).boxed());
        let events = HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, events);
        let streaming = Streaming {
            frames,
            gone: self.gone.clone(),
            ended: false,
        };
        self.answer_with(response);
        streaming
    }

    /// Waits until the client has left.
    pub async fn gone(&self, deadline: Duration) -> anyhow::Result<()> {
        wait_gone(&self.gone, deadline).await
    }
}

// === impl Streaming ===

impl Streaming {
    /// Sends one event with this data.
    pub fn event(&self, data: impl AsRef<str>) {
        self.bytes(format!("data: {}\n\n", data.as_ref()));
    }

    /// Sends bytes as they are.
    pub fn bytes(&self, bytes: impl Into<Bytes>) {
        // A client that left takes no more.
        let _ = self.frames.unbounded_send(Ok(Frame::data(bytes.into())));
    }

    /// Ends the answer as an engine does.
    pub fn end(mut self) {
        self.event("[DONE]");
        self.ended = true;
    }

    /// Waits until the client has left.
    pub async fn gone(&self, deadline: Duration) -> anyhow::Result<()> {
        wait_gone(&self.gone, deadline).await
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        if !self.ended {
            let broken = std::io::Error::other("the test broke the stream");
            let _ = self.frames.unbounded_send(Err(broken));
        }
    }
}

async fn wait_gone(gone: &CancellationToken, deadline: Duration) -> anyhow::Result<()> {
    tokio::time::timeout(deadline, gone.cancelled())
        .await
        .context("the client is still there")
}

// === impl Place ===

impl Place {
    fn take(shared: Arc<Shared>, gone: CancellationToken) -> Self {
        {
            let mut counts = shared.counts.lock();
            counts.active += 1;
            counts.total += 1;
            counts.max_active = counts.max_active.max(counts.active);
        }
        Self {
            shared,
            _gone: gone.drop_guard(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.counts.lock().active -= 1;
    }
}
