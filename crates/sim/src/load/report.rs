//! The figures of a run. The field names are an interface; units are in the names.

use super::{
    pulse::Pulse,
    scenario::{ClassLoad, Scenario, Slo},
    seen::{End, Seen},
    timeline::Timeline,
};
use crate::report::{Curve, Curves, Recorder, TimelineRun};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// Grows when a field changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

/// Reasons for failures that are told apart; a strange endpoint may word each anew.
const MOST_FAILURES: usize = 20;

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
    /// How it went: for the page, not for readers of the figures.
    #[serde(skip)]
    pub timeline: TimelineRun,
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
    /// The same by the limit or rule that decided.
    pub refused_why: BTreeMap<String, BTreeMap<String, u64>>,
    /// Left by the client: out of patience, or unfinished at the end of the run.
    pub cancelled: u64,
    /// Anything else.
    pub failed: u64,
    /// The same by what was said of it.
    pub failed_why: BTreeMap<String, u64>,
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
    /// Those objectives.
    pub objectives: Objectives,
    /// How its times are distributed: for the page, not for readers of the figures.
    #[serde(skip)]
    pub curves: Curves,
}

/// What makes an answer a good one; `None`: not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Objectives {
    /// The longest time to the first token.
    pub ttft_ms: Option<f64>,
    /// The longest mean time between tokens.
    pub tpot_ms: Option<f64>,
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
        timeline: over_time(scenario, seen, timeline),
    }
}

fn over_time(scenario: &Scenario, all: &[Seen], timeline: &Timeline) -> TimelineRun {
    let mut recorder = Recorder::new(scenario.classes.len());
    timeline.each(|class, at, tokens| recorder.tokens(class, at, tokens));
    let mut end = scenario.duration;
    for seen in all {
        let (class, born) = (seen.offered.class, seen.offered.at);
        let ended = born + seen.ended;
        end = end.max(ended);
        let held = match (&seen.end, seen.queue_ms) {
            (End::Refused { .. }, _) => {
                recorder.refused(class, ended);
                seen.ended
            }
            (_, Some(ms)) => Duration::from_secs_f64((ms / 1e3).max(0.0)).min(seen.ended),
            (_, None) => Duration::ZERO,
        };
        recorder.queued(class, born, born + held);
        recorder.in_flight(class, born + held, ended);
        if let (Some(first), Some(last)) = (seen.first_token, seen.last_token) {
            let gaps = seen.tokens.saturating_sub(1);
            recorder.gaps(class, born + first, born + last, gaps);
        }
    }
    let names = scenario.classes.iter().map(|class| class.name.as_str());
    recorder.finish(names, end)
}

/// How many requests ended in each way, whatever the reason.
pub(crate) fn by_outcome(why: &BTreeMap<String, BTreeMap<String, u64>>) -> BTreeMap<String, u64> {
    let sums = why.iter();
    let sums = sums.map(|(outcome, reasons)| (outcome.clone(), reasons.values().sum()));
    sums.collect()
}

// === impl ClassRun ===

impl ClassRun {
    fn new(class: &ClassLoad, seen: &[&Seen], output_tokens_per_s: f64) -> Self {
        let mut refused_why: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        let mut failed_why = BTreeMap::new();
        let (mut completed, mut cancelled, mut failed, mut attained) = (0, 0, 0, 0);
        for seen in seen {
            match &seen.end {
                End::Completed => completed += 1,
                End::Cancelled => cancelled += 1,
                End::Failed(why) => {
                    failed += 1;
                    let is_one_more = failed_why.len() >= MOST_FAILURES;
                    let why = match is_one_more && !failed_why.contains_key(why) {
                        true => "other reasons",
                        false => why,
                    };
                    *failed_why.entry(why.to_owned()).or_default() += 1;
                }
                End::Refused { outcome, reason } => {
                    let reasons = refused_why.entry(outcome.clone()).or_default();
                    *reasons.entry(reason.clone()).or_default() += 1;
                }
            }
            attained += u64::from(class.slo.is_attained_by(seen));
        }
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let all = |value: &dyn Fn(&Seen) -> Option<f64>| {
            Percentiles::of(seen.iter().filter_map(|seen| value(seen)).collect())
        };
        let curve = |value: &dyn Fn(&Seen) -> Option<f64>, of| {
            Curve::new(seen.iter().filter_map(|seen| value(seen)).collect(), of)
        };
        Self {
            offered: seen.len() as u64,
            completed,
            refused: by_outcome(&refused_why),
            refused_why,
            cancelled,
            failed,
            failed_why,
            ttft_ms: all(&|seen| seen.ttft_at_least().map(ms)),
            tpot_ms: all(&|seen| seen.tpot().map(ms)),
            latency_ms: all(&|seen| seen.latency_at_least().map(ms)),
            queue_ms: all(&|seen| seen.queue_ms),
            output_tokens_per_s: rounded(output_tokens_per_s),
            slo_attained: (!seen.is_empty()).then(|| rounded(attained as f64 / seen.len() as f64)),
            objectives: class.slo.objectives(),
            curves: Curves {
                ttft_ms: curve(&|seen| seen.first_token.map(ms), seen.len()),
                tpot_ms: curve(&|seen| seen.tpot().map(ms), 0),
                latency_ms: curve(
                    &|seen| (seen.end == End::Completed).then(|| ms(seen.ended)),
                    seen.len(),
                ),
            },
        }
    }
}

// === impl Slo ===

impl Slo {
    /// In milliseconds.
    pub fn objectives(&self) -> Objectives {
        let ms = |time: Duration| rounded(time.as_secs_f64() * 1e3);
        Objectives {
            ttft_ms: self.ttft.map(ms),
            tpot_ms: self.tpot.map(ms),
        }
    }

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
        Self::sorted(&values)
    }

    /// Of values in rising order.
    pub fn sorted(values: &[f64]) -> Self {
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
