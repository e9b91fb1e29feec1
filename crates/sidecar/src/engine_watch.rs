//! What the engine says of itself, read beside the data path: its metric page each second, its
//! model list now and then. What can't be read is unknown: the last facts stay, and their age is
//! shown.

mod seats;

use crate::{
    admission::Admission,
    dial::{Dial, EngineAddress},
};
use arc_swap::ArcSwap;
use bytes::Bytes;
use fairtide_engine::{EngineGauges, max_model_len};
use fairtide_scheduler::EngineFacts;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use seats::SeatLearner;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, MissedTickBehavior};

/// How often the metric page is read.
const READ_EVERY: Duration = Duration::from_secs(1);

/// How often the model list is read again: an engine that restarted may serve another model.
const MODELS_EVERY: Duration = Duration::from_secs(60);

/// An engine under load is slow to answer, but what it says later is no longer true.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Pages above this size are none: vLLM's with all histograms is 60 KiB.
const MAX_PAGE: usize = 4 << 20;

/// What is known of the engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct EngineView {
    /// The last page that could be read.
    pub(crate) gauges: EngineGauges,
    /// When that was.
    pub(crate) read_at: Option<Instant>,
    /// What follows for the scheduler.
    pub(crate) facts: EngineFacts,
}

/// Why a page couldn't be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("no answer within {READ_TIMEOUT:?}")]
    Timeout,
    #[error("no connection")]
    Connect(#[source] hyper_util::client::legacy::Error),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("the page broke off or is too large: {0}")]
    Body(String),
}

/// Reads pages of one engine.
struct Reader {
    client: Client<Dial, Empty<Bytes>>,
    engine: EngineAddress,
}

/// What is known of the engine behind each port.
#[derive(Debug, Default)]
pub(crate) struct EngineViews(ArcSwap<Vec<EngineView>>);

/// Watches the engine behind a port for as long as the process lives.
pub(crate) async fn watch(
    port: usize,
    engine: EngineAddress,
    admission: Admission,
    views: Arc<EngineViews>,
) {
    let reader = Reader::new(engine);
    let mut known = EngineView::default();
    let mut seats = SeatLearner::default();
    let mut models_at: Option<Instant> = None;
    let mut readable = None;
    let mut ticks = tokio::time::interval(READ_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let before = known.facts;
        match reader.read("/metrics").await {
            Ok(page) => {
                if readable != Some(true) {
                    tracing::info!("the engine's metric page can be read");
                    models_at = None;
                }
                readable = Some(true);
                let gauges = EngineGauges::parse(&String::from_utf8_lossy(&page));
                known.gauges = gauges;
                known.read_at = Some(Instant::now());
                known.facts.seats = seats.observe(&gauges);
                known.facts.kv_tokens = gauges.kv_tokens.or(known.facts.kv_tokens);
            }
            Err(error) => {
                if readable != Some(false) {
                    tracing::warn!(%error, "the engine's metric page can't be read");
                }
                readable = Some(false);
                seats.miss();
            }
        }
        let due = models_at.is_none_or(|at| at.elapsed() >= MODELS_EVERY);
        if readable == Some(true) && due {
            models_at = Some(Instant::now());
            match reader.read("/v1/models").await {
                Ok(page) => {
                    let length = max_model_len(&page);
                    known.facts.context_tokens = length.or(known.facts.context_tokens);
                }
                Err(error) => tracing::debug!(%error, "the model list can't be read"),
            }
        }
        if known.facts != before {
            tracing::info!(
                seats = known.facts.seats,
                kv_tokens = known.facts.kv_tokens,
                context_tokens = known.facts.context_tokens,
                "facts of the engine"
            );
            admission.set_engine(known.facts);
        }
        views.set(port, known.clone());
    }
}

// === impl EngineViews ===

impl EngineViews {
    fn set(&self, port: usize, view: EngineView) {
        self.0.rcu(|views| {
            let mut views = Vec::clone(views);
            if views.len() <= port {
                views.resize(port + 1, EngineView::default());
            }
            views[port] = view.clone();
            views
        });
    }

    /// All engines of the pod as one. What isn't known of each isn't known of all.
    pub(crate) fn together(&self) -> EngineView {
        let views = self.0.load();
        let mut views = views.iter();
        let mut whole = views.next().cloned().unwrap_or_default();
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        for view in views {
            let (gauges, facts) = (&mut whole.gauges, &mut whole.facts);
            gauges.running = sum(gauges.running, view.gauges.running);
            gauges.waiting = sum(gauges.waiting, view.gauges.waiting);
            gauges.waiting_for_capacity = sum(
                gauges.waiting_for_capacity,
                view.gauges.waiting_for_capacity,
            );
            let usages = gauges.kv_usage.zip(view.gauges.kv_usage);
            gauges.kv_usage = usages.map(|(a, b)| a.max(b));
            gauges.kv_tokens = sum(gauges.kv_tokens, view.gauges.kv_tokens);
            facts.kv_tokens = sum(facts.kv_tokens, view.facts.kv_tokens);
            facts.seats = facts.seats.zip(view.facts.seats).map(|(a, b)| a + b);
            let windows = facts.context_tokens.zip(view.facts.context_tokens);
            facts.context_tokens = windows.map(|(a, b)| a.min(b));
            whole.read_at = whole.read_at.zip(view.read_at).map(|(a, b)| a.min(b));
        }
        whole
    }
}

// === impl Reader ===

impl Reader {
    fn new(engine: EngineAddress) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(3))
            .build(Dial::new(engine.clone(), READ_TIMEOUT));
        Self { client, engine }
    }

    async fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        tokio::time::timeout(READ_TIMEOUT, self.fetch(path))
            .await
            .unwrap_or(Err(ReadError::Timeout))
    }

    async fn fetch(&self, path: &str) -> Result<Bytes, ReadError> {
        let uri = Uri::builder()
            .scheme("http")
            .authority(self.engine.authority())
            .path_and_query(path)
            .build()
            .expect("scheme, authority and path make a URI");
        let request = Request::get(uri)
            .body(Empty::new())
            .expect("a URI makes a request");
        let response = self.client.request(request).await;
        let response = response.map_err(ReadError::Connect)?;
        if response.status() != StatusCode::OK {
            return Err(ReadError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_PAGE);
        let body = body.collect().await;
        let body = body.map_err(|error| ReadError::Body(error.to_string()))?;
        Ok(body.to_bytes())
    }
}
