//! The figures of a run. The field names are an interface; units are in the names.

use super::{
    pulse::Pulse,
    scenario::{ClassLoad, Scenario, Slo},
    seen::{End, Seen},
    timeline::Timeline,
};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// Grows when a field changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

/// One run of a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The scenario.
    pub name: String,
    /// What was being measured.
    pub policy: String,
    /// Names the requests that were offered, together with the scenario.
    pub seed: u64,
    /// The time in which requests arrived and throughput was counted.
    pub duration_s: f64,
    /// By class.
    pub classes: BTreeMap<String, ClassRun>,
    /// What the engines say of themselves.
    pub engine: EngineRun,
}

/// One class of a run. `offered` = `completed` + all of `refused` + `cancelled` + `failed`.
#[derive(Clone, Debug, Serialize)]
pub struct ClassRun {
    /// Requests sent.
    pub offered: u64,
    /// Answered in full, also after the end of the arrivals.
    pub completed: u64,
    /// Refused by Fairtide, by outcome.
    pub refused: BTreeMap<String, u64>,
    /// Left by the client: out of patience, or unfinished at the end of the run.
    pub cancelled: u64,
    /// Anything else.
    pub failed: u64,
    /// Time to the first token. Cancelled requests that had none count with their age.
    pub ttft_ms: Percentiles,
    /// Mean time between the tokens of a request; streamed answers of two and more tokens.
    pub tpot_ms: Percentiles,
    /// Time to the end of the answer. Cancelled requests count with their age.
    pub latency_ms: Percentiles,
    /// What Fairtide says that it held requests.
    pub queue_ms: Percentiles,
    /// Tokens that came while requests arrived.
    pub output_tokens_per_s: f64,
    /// The share of offered requests that were completed within the objectives of their class.
    pub slo_attained: Option<f64>,
}

/// The engines during a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EngineRun {
    /// The share of time in which they had requests.
    pub busy: Option<f64>,
    /// Tokens by their own count.
    pub output_tokens_per_s: Option<f64>,
}

/// By nearest rank: each is a value that occurred. `None` of nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half are at most this.
    pub p50: Option<f64>,
    /// 95 % are at most this.
    pub p95: Option<f64>,
    /// 99 % are at most this.
    pub p99: Option<f64>,
}

/// Sums up what was seen.
pub(super) fn report(
    scenario: &Scenario,
    policy: &str,
    seed: u64,
    seen: &[Seen],
    timeline: &Timeline,
    pulse: Pulse,
) -> Run {
    let classes = scenario.classes.iter().enumerate().map(|(at, class)| {
        let seen: Vec<&Seen> = seen.iter().filter(|s| s.offered.class == at).collect();
        let rate = timeline.per_second(at, Duration::ZERO, scenario.duration);
        (class.name.clone(), ClassRun::new(class, &seen, rate))
    });
    Run {
        name: scenario.name.clone(),
        policy: policy.to_owned(),
        seed,
        duration_s: scenario.duration.as_secs_f64(),
        classes: classes.collect(),
        engine: EngineRun {
            busy: pulse.busy.map(rounded),
            output_tokens_per_s: pulse.output_tokens_per_s.map(rounded),
        },
    }
}

// === impl ClassRun ===

impl ClassRun {
    fn new(class: &ClassLoad, seen: &[&Seen], output_tokens_per_s: f64) -> Self {
        let mut refused = BTreeMap::new();
        let (mut completed, mut cancelled, mut failed, mut attained) = (0, 0, 0, 0);
        for seen in seen {
            match &seen.end {
                End::Completed => completed += 1,
                End::Cancelled => cancelled += 1,
                End::Failed(_) => failed += 1,
                End::Refused(outcome) => *refused.entry(outcome.clone()).or_default() += 1,
            }
            attained += u64::from(class.slo.is_attained_by(seen));
        }
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let all = |value: &dyn Fn(&Seen) -> Option<f64>| {
            Percentiles::of(seen.iter().filter_map(|seen| value(seen)).collect())
        };
        Self {
            offered: seen.len() as u64,
            completed,
            refused,
            cancelled,
            failed,
            ttft_ms: all(&|seen| seen.ttft_at_least().map(ms)),
            tpot_ms: all(&|seen| seen.tpot().map(ms)),
            latency_ms: all(&|seen| seen.latency_at_least().map(ms)),
            queue_ms: all(&|seen| seen.queue_ms),
            output_tokens_per_s: rounded(output_tokens_per_s),
            slo_attained: (!seen.is_empty()).then(|| rounded(attained as f64 / seen.len() as f64)),
        }
    }
}

// === impl Slo ===

impl Slo {
    /// Whether a request was completed in time. Without objectives completion is enough.
    pub fn is_attained_by(&self, seen: &Seen) -> bool {
        let within = |value: Option<Duration>, bound: Option<Duration>| match (value, bound) {
            (Some(value), Some(bound)) => value <= bound,
            _ => true,
        };
        seen.end == End::Completed
            && within(seen.first_token, self.ttft)
            && within(seen.tpot(), self.tpot)
    }
}

// === impl Percentiles ===

impl Percentiles {
    /// Of these values, in any order.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let rank = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100);
            values.get(rank.checked_sub(1)?).copied().map(rounded)
        };
        Self {
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
        }
    }
}

/// To a thousandth: more would only pretend.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests;
