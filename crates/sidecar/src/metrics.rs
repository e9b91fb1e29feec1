//! What the sidecar counts. Labels are class names, outcomes and other closed lists: never a
//! tenant, a model, a path or a key, whose number nobody bounds.

mod live;

pub(crate) use self::live::Live;
use crate::{body::HeldBytes, engine_watch::EngineViews};
use arc_swap::ArcSwap;
use fairtide_scheduler::{Outcome, Snapshot};
use fairtide_telemetry::metrics::Registry;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};
use std::sync::Arc;
use tokio::time::Instant;

/// Waits and first tokens: from what nobody feels to what batch work takes, in seconds.
const WAIT_BUCKETS: [f64; 16] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0,
];

/// Times per output token: finer around the 10 to 100 ms at which engines are run.
const TPOT_BUCKETS: [f64; 14] = [
    0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0,
];

type Histograms = Family<ClassLabel, Histogram, fn() -> Histogram>;

/// The sidecar's metrics.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) arrivals: Family<ClassLabel, Counter>,
    pub(crate) requests: Family<OutcomeLabels, Counter>,
    pub(crate) passed_through: Counter,
    pub(crate) queued: Family<ClassLabel, Gauge>,
    pub(crate) in_flight: Family<ClassLabel, Gauge>,
    pub(crate) queue_seconds: Histograms,
    pub(crate) ttft_seconds: Histograms,
    pub(crate) tpot_seconds: Histograms,
    pub(crate) tokens: Family<TokenLabels, Counter>,
    pub(crate) body_bytes: HeldBytes,
    pub(crate) policies_applied: Counter,
    pub(crate) policies_refused: Counter,
    pub(crate) channel_connected: Gauge,
    pub(crate) worker_restarts: Counter,
    /// The scheduler's state, as of about a second ago.
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(crate) engine: Arc<EngineViews>,
    pub(crate) policy: Arc<ArcSwap<PolicyLabels>>,
}

/// The class of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ClassLabel {
    class: Arc<str>,
}

/// How a request of a class ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabels {
    class: Arc<str>,
    outcome: &'static str,
}

/// Prompt or output tokens of a class.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TokenLabels {
    class: Arc<str>,
    kind: &'static str,
}

/// Which policy is in force, and since when.
#[derive(Clone, Debug)]
pub(crate) struct PolicyLabels {
    pub(crate) version: String,
    pub(crate) source: &'static str,
    pub(crate) since: Instant,
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let waits: fn() -> Histogram = || Histogram::new(WAIT_BUCKETS);
        let tpots: fn() -> Histogram = || Histogram::new(TPOT_BUCKETS);
        let metrics = Self {
            arrivals: Family::default(),
            requests: Family::default(),
            passed_through: Counter::default(),
            queued: Family::default(),
            in_flight: Family::default(),
            queue_seconds: Family::new_with_constructor(waits),
            ttft_seconds: Family::new_with_constructor(waits),
            tpot_seconds: Family::new_with_constructor(tpots),
            tokens: Family::default(),
            body_bytes: HeldBytes::default(),
            policies_applied: Counter::default(),
            policies_refused: Counter::default(),
            channel_connected: Gauge::default(),
            worker_restarts: Counter::default(),
            snapshot: Arc::default(),
            engine: Arc::default(),
            policy: Arc::new(ArcSwap::from_pointee(PolicyLabels {
                version: String::new(),
                source: "none",
                since: Instant::now(),
            })),
        };
        let m = &metrics;
        registry.register(
            "arrivals",
            "How many requests arrived for each class",
            m.arrivals.clone(),
        );
        registry.register(
            "requests",
            "How requests ended; each is counted once, by one outcome",
            m.requests.clone(),
        );
        registry.register(
            "pass_through_requests",
            "How many requests never queued, such as probes and /metrics",
            m.passed_through.clone(),
        );
        registry.register(
            "queued",
            "How many requests of each class wait now",
            m.queued.clone(),
        );
        registry.register(
            "in_flight",
            "How many requests of each class are in the engine now",
            m.in_flight.clone(),
        );
        registry.register(
            "queue_seconds",
            "How long requests waited, until they were started or refused",
            m.queue_seconds.clone(),
        );
        registry.register(
            "ttft_seconds",
            "How long streamed answers took from arrival to the first token, the wait included",
            m.ttft_seconds.clone(),
        );
        registry.register(
            "tpot_seconds",
            "How long each further token of a streamed answer took, as a mean of the answer",
            m.tpot_seconds.clone(),
        );
        registry.register(
            "tokens",
            "How many tokens were delivered, by the engine's count where it says",
            m.tokens.clone(),
        );
        registry.register(
            "body_bytes",
            "Bytes of request bodies in memory, being read or waiting",
            m.body_bytes.clone(),
        );
        registry.register(
            "policies_applied",
            "How many policies were put in force",
            m.policies_applied.clone(),
        );
        registry.register(
            "policies_refused",
            "How many policies could not be obeyed; the one before stayed in force",
            m.policies_refused.clone(),
        );
        registry.register(
            "channel_connected",
            "Whether the operator's channel is open",
            m.channel_connected.clone(),
        );
        registry.register(
            "worker_restarts",
            "How often the process that serves was started again in this container",
            m.worker_restarts.clone(),
        );
        metrics
    }

    /// Sum of a class's requests that ended with one of these outcomes.
    pub(crate) fn ended(&self, class: &Arc<str>, which: impl Fn(Outcome) -> bool) -> u64 {
        let outcomes = Outcome::ALL.iter().filter(|&&outcome| which(outcome));
        outcomes
            .filter_map(|&outcome| self.requests.get(&OutcomeLabels::new(class, outcome)))
            .map(|counter| counter.get())
            .sum()
    }
}

// === impl labels ===

impl ClassLabel {
    pub(crate) fn new(class: &Arc<str>) -> Self {
        Self {
            class: class.clone(),
        }
    }
}

impl OutcomeLabels {
    pub(crate) fn new(class: &Arc<str>, outcome: Outcome) -> Self {
        Self {
            class: class.clone(),
            outcome: outcome.as_str(),
        }
    }
}

impl TokenLabels {
    pub(crate) fn new(class: &Arc<str>, kind: &'static str) -> Self {
        Self {
            class: class.clone(),
            kind,
        }
    }
}
