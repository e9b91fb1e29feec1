//! What is counted of a replay, in the terms of a load report.

use crate::load::{ClassRun, Percentiles, Slo};
use std::{collections::BTreeMap, time::Duration};

/// One class.
#[derive(Debug, Default)]
pub(super) struct Tally {
    slo: Slo,
    pub offered: u64,
    pub completed: u64,
    pub refused: BTreeMap<String, u64>,
    /// Unfinished at the end.
    pub cancelled: u64,
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

    pub fn report(self, tokens_per_s: f64) -> ClassRun {
        let share = self.attained as f64 / self.offered as f64;
        ClassRun {
            offered: self.offered,
            completed: self.completed,
            refused: self.refused,
            cancelled: self.cancelled,
            failed: self.failed,
            ttft_ms: Percentiles::of(self.ttft_ms),
            tpot_ms: Percentiles::of(self.tpot_ms),
            latency_ms: Percentiles::of(self.latency_ms),
            queue_ms: Percentiles::of(self.queue_ms),
            output_tokens_per_s: rounded(tokens_per_s),
            slo_attained: (self.offered > 0).then(|| rounded(share)),
        }
    }
}

/// To a thousandth, as in the reports of real load.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
