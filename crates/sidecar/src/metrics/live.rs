//! Figures that are read when somebody asks for them: the scheduler's state, the engine's, the
//! policy in force.

use super::{ClassLabel, Metrics};
use crate::{in_force::PolicySeat, lifecycle::Phase, pod_state::PodState};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{family::Family, gauge::ConstGauge, gauge::Gauge},
};
use std::{fmt, sync::atomic::AtomicU64};

pub(crate) struct Live {
    pub(crate) metrics: Metrics,
    pub(crate) policy: PolicySeat,
    pub(crate) state: PodState,
}

// === impl Live ===

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

impl Collector for Live {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let policy = self.metrics.policy.load();
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

        let mode = self.policy.load().mode;
        let labels = [("mode", mode.word()), ("source", mode.source)];
        let info: Family<Vec<(String, String)>, Gauge> = Family::default();
        info.get_or_create(&labels.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec())
            .set(1);
        let described = encoder.encode_descriptor(
            "mode",
            "The mode in force, and whether the pool or the pod's annotation set it",
            None,
            info.metric_type(),
        )?;
        info.encode(described)?;
        let phases: Family<Vec<(String, String)>, Gauge> = Family::default();
        let now = self.state.lifecycle.phase();
        for phase in Phase::ALL {
            let label = vec![("phase".to_owned(), phase.word().to_owned())];
            phases.get_or_create(&label).set(i64::from(phase == now));
        }
        let described = encoder.encode_descriptor(
            "phase",
            "1 for the phase that the pod is in on its way out",
            None,
            phases.metric_type(),
        )?;
        phases.encode(described)?;

        let found = self.state.found.load();
        let yes = |yes: bool| if yes { 1.0 } else { 0.0 };
        let snapshot = self.metrics.snapshot.load();
        let engine = self.metrics.engine.together();
        let gauges: [(&str, &str, Option<f64>); 18] = [
            (
                "policy_age_seconds",
                "How long the policy has been in force",
                Some(policy.since.elapsed().as_secs_f64()),
            ),
            (
                "ready",
                "Whether the pod wants traffic",
                Some(yes(self.state.health.is_ready())),
            ),
            (
                "engine_ready",
                "Whether the engine's readiness check is good, or late while it works",
                Some(yes(self.state.engine.borrow().is_ready())),
            ),
            (
                "engine_restart",
                "Whether starts are held while the engine's container is restarted",
                Some(yes(self.state.restart.is_on())),
            ),
            (
                "ports_reached",
                "Whether the pod's own addresses lead to this sidecar; absent while unknown",
                found.reached.map(yes),
            ),
            (
                "bypassable",
                "Whether the engine answers on the pod's own addresses; absent while unknown",
                found.bypassable.map(yes),
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
