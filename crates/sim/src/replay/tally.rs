//! What is counted of a replay, in the terms of a load report.

use super::front::Why;
use crate::{
    load::{ClassRun, Percentiles, Slo, by_outcome},
    report::{Curve, Curves},
};
use std::{collections::BTreeMap, time::Duration};

/// The one reason for which the model refuses a request.
const TOO_LONG: &str = "longer than the engine takes";

/// One class.
#[derive(Debug, Default)]
pub(super) struct Tally {
    slo: Slo,
    pub offered: u64,
    pub completed: u64,
    refused_why: BTreeMap<String, BTreeMap<String, u64>>,
    /// Unfinished at the end.
    pub cancelled: u64,
    /// Too long for the engine.
    pub failed: u64,
    attained: u64,
    ttft_ms: Vec<f64>,
    tpot_ms: Vec<f64>,
    latency_ms: Vec<f64>,
    queue_ms: Vec<f64>,
    /// While requests arrived.
    pub tokens_in_window: u64,
    pub tokens: u64,
}

/// The times of a request that was completed, since its arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completed {
    pub started: Duration,
    pub first_token: Duration,
    pub last_token: Duration,
    pub tokens: u64,
}

// === impl Tally ===

impl Tally {
    pub fn new(slo: Slo) -> Self {
        Self {
            slo,
            ..Self::default()
        }
    }

    pub fn completed(&mut self, times: Completed) {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let decode = times.last_token - times.first_token;
        let tpot = (times.tokens > 1).then(|| decode.div_f64((times.tokens - 1) as f64));
        self.completed += 1;
        self.ttft_ms.push(ms(times.first_token));
        self.tpot_ms.extend(tpot.map(ms));
        self.latency_ms.push(ms(times.last_token));
        self.queue_ms.push(ms(times.started));
        let in_time = self.slo.ttft.is_none_or(|most| times.first_token <= most)
            && self
                .slo
                .tpot
                .is_none_or(|most| tpot.is_none_or(|tpot| tpot <= most));
        self.attained += u64::from(in_time);
    }

    pub fn refused(&mut self, why: Why) {
        let reasons = self.refused_why.entry(why.outcome.to_owned()).or_default();
        *reasons.entry(why.reason.to_owned()).or_default() += 1;
    }

    pub fn report(mut self, tokens_per_s: f64) -> ClassRun {
        for times in [
            &mut self.ttft_ms,
            &mut self.tpot_ms,
            &mut self.latency_ms,
            &mut self.queue_ms,
        ] {
            times.sort_by(f64::total_cmp);
        }
        let offered = self.offered as usize;
        let curves = Curves {
            ttft_ms: Curve::sorted(&self.ttft_ms, offered),
            tpot_ms: Curve::sorted(&self.tpot_ms, 0),
            latency_ms: Curve::sorted(&self.latency_ms, offered),
        };
        let share = self.attained as f64 / self.offered as f64;
        ClassRun {
            offered: self.offered,
            completed: self.completed,
            refused: by_outcome(&self.refused_why),
            refused_why: self.refused_why,
            cancelled: self.cancelled,
            failed: self.failed,
            failed_why: (self.failed > 0)
                .then(|| (TOO_LONG.to_owned(), self.failed))
                .into_iter()
                .collect(),
            ttft_ms: Percentiles::sorted(&self.ttft_ms),
            tpot_ms: Percentiles::sorted(&self.tpot_ms),
            latency_ms: Percentiles::sorted(&self.latency_ms),
            queue_ms: Percentiles::sorted(&self.queue_ms),
            output_tokens_per_s: rounded(tokens_per_s),
            slo_attained: (self.offered > 0).then(|| rounded(share)),
            objectives: self.slo.objectives(),
            curves,
        }
    }
}

/// To a thousandth, as in the reports of real load.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
