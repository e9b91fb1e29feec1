//! Netflix concurrency-limits, `VegasLimit` (commit 78a74b9): the queue is estimated from the
//! least time seen, which is forgotten now and then. Without the jitter of that, so that it draws
//! no chance: three quarters of the span, the mean of the original.

use super::{Limiter, Window};

const START: f64 = 20.0;
const MOST: f64 = 1000.0;
const PROBE_MULTIPLIER: f64 = 30.0;
const MEAN_JITTER: f64 = 0.75;

#[derive(Clone, Copy, Debug)]
pub(in crate::replay) struct Vegas {
    limit: f64,
    no_load_ms: Option<f64>,
    windows: f64,
}

// === impl Vegas ===

impl Vegas {
    pub fn new() -> Self {
        Self {
            limit: START,
            no_load_ms: None,
            windows: 0.0,
        }
    }
}

impl Limiter for Vegas {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn observe(&mut self, window: Window) {
        self.windows += 1.0;
        if self.windows >= MEAN_JITTER * PROBE_MULTIPLIER * self.limit {
            self.windows = 0.0;
            self.no_load_ms = Some(window.mean_ms);
            return;
        }
        let no_load = match self.no_load_ms {
            Some(no_load) if no_load <= window.mean_ms => no_load,
            _ => {
                self.no_load_ms = Some(window.mean_ms);
                return;
            }
        };
        if window.in_flight * 2.0 < self.limit {
            return;
        }
        let step = self.limit.log10().floor().max(1.0);
        let queue = (self.limit * (1.0 - no_load / window.mean_ms)).ceil();
        let (alpha, beta) = (3.0 * step, 6.0 * step);
        let limit = if queue <= step {
            self.limit + beta
        } else if queue < alpha {
            self.limit + step
        } else if queue > beta {
            self.limit - step
        } else {
            self.limit
        };
        self.limit = limit.clamp(1.0, MOST);
    }
}
