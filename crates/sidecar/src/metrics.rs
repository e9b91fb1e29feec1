//! What the sidecar counts. Labels are class names, outcomes and other closed lists: never a
//! tenant, a model, a path or a key, whose number nobody bounds.

use crate::engine_watch::EngineView;
use arc_swap::ArcSwap;
use fairtide_scheduler::{Outcome, Snapshot};
use fairtide_telemetry::metrics::Registry;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        counter::Counter, family::Family, gauge::ConstGauge, gauge::Gauge, histogram::Histogram,
    },
};
use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
};
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
    pub(crate) policies_applied: Counter,
    pub(crate) policies_refused: Counter,
    pub(crate) channel_connected: Gauge,
    /// The scheduler's state, as of about a second ago.
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(crate) engine: Arc<ArcSwap<EngineView>>,
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

/// Figures that are read when somebody asks for them.
struct Live(Metrics);

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
            policies_applied: Counter::default(),
            policies_refused: Counter::default(),
            channel_connected: Gauge::default(),
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
        registry.register_collector(Box::new(Live(metrics.clone())));
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

// === impl Live ===

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

impl Collector for Live {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let policy = self.0.policy.load();
        let labels = [
            ("version", policy.version.as_str()),
            ("source", policy.source),
        ];
        let info: Family<Vec<(String, String)>, Gauge> = Family::default();
        info.get_or_create(&labels.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec())
            .set(1);
        let described = encoder.encode_descriptor(
            "policy_info",
            "Which policy is in force, and where it comes from",
            None,
            info.metric_type(),
        )?;
        info.encode(described)?;

        let snapshot = self.0.snapshot.load();
        let engine = self.0.engine.load();
        let gauges: [(&str, &str, Option<f64>); 13] = [
            (
                "policy_age_seconds",
                "How long the policy has been in force",
                Some(policy.since.elapsed().as_secs_f64()),
            ),
            (
                "in_flight_tokens",
                "Context tokens in the engine by the sidecar's own count",
                Some(snapshot.in_flight_tokens as f64),
            ),
            (
                "queued_bytes",
                "Bytes of request bodies that wait",
                Some(snapshot.queued_bytes as f64),
            ),
            (
                "reserve_seats",
                "Seats that batch work may not take now",
                Some(f64::from(snapshot.reserve)),
            ),
            (
                "seat_cap",
                "Seats of the engine by policy or as learned; absent while unknown",
                snapshot.seat_cap.map(f64::from),
            ),
            (
                "token_limit",
                "Limit on context tokens in the engine; absent when there is none",
                snapshot.token_limit.map(|limit| limit as f64),
            ),
            (
                "engine_facts_age_seconds",
                "How old the last reading of the engine's metric page is; absent before the first",
                engine.read_at.map(|at| at.elapsed().as_secs_f64()),
            ),
            (
                "engine_running",
                "Requests that run in the engine, as it says",
                engine.gauges.running.map(|n| n as f64),
            ),
            (
                "engine_waiting",
                "Requests that wait inside the engine, as it says",
                engine.gauges.waiting.map(|n| n as f64),
            ),
            (
                "engine_kv_usage_ratio",
                "How full the engine's KV cache is, 0 to 1",
                engine.gauges.kv_usage,
            ),
            (
                "engine_kv_tokens",
                "Tokens that the engine's KV cache holds",
                engine.facts.kv_tokens.map(|n| n as f64),
            ),
            (
                "engine_context_tokens",
                "Tokens that one request may have, as the engine says",
                engine.facts.context_tokens.map(|n| n as f64),
            ),
            (
                "engine_seats_learned",
                "Requests that the engine was seen to run at once; absent while unknown",
                engine.facts.seats.map(f64::from),
            ),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value else { continue };
            let gauge: ConstGauge<f64> = ConstGauge::new(value);
            let described = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(described)?;
        }

        let mut by_class = |name: &str, help: &str, value: &dyn Fn(usize) -> Option<f64>| {
            let family: Family<ClassLabel, Gauge<f64, AtomicU64>> = Family::default();
            for (at, class) in snapshot.classes.iter().enumerate() {
                if let Some(value) = value(at) {
                    family
                        .get_or_create(&ClassLabel::new(&class.name))
                        .set(value);
                }
            }
            let described = encoder.encode_descriptor(name, help, None, family.metric_type())?;
            family.encode(described)
        };
        by_class(
            "served_cost",
            "Cost units served for each class since it exists",
            &|at| Some(snapshot.classes[at].served_cost),
        )?;
        by_class(
            "credit",
            "What each class is owed of its minShare, in cost units",
            &|at| Some(snapshot.classes[at].credit),
        )?;
        by_class(
            "bucket_units",
            "Units left in the bucket of each class that has one; negative while in debt",
            &|at| snapshot.classes[at].bucket,
        )
    }
}
