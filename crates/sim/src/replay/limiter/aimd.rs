//! Additive increase, multiplicative decrease: Netflix concurrency-limits, `AIMDLimit` (commit
//! 78a74b9). Its timeout is the objective for the time between tokens. The library's least limit of
//! 20 is above the seats of a small engine, which it could then never protect; here it is 1.

use super::{Limiter, Window};

const START: f64 = 20.0;
const LEAST: f64 = 1.0;
const MOST: f64 = 200.0;
const BACKOFF: f64 = 0.9;

#[derive(Clone, Copy, Debug)]
pub(in crate::replay) struct Aimd {
    limit: f64,
    timeout_ms: f64,
}

// === impl Aimd ===

impl Aimd {
    pub fn new(timeout_ms: f64) -> Self {
        Self {
            limit: START,
            timeout_ms,
        }
    }
}

impl Limiter for Aimd {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn observe(&mut self, window: Window) {
        if window.mean_ms > self.timeout_ms {
            self.limit = (self.limit * BACKOFF).floor();
        } else if window.in_flight * 2.0 >= self.limit {
            self.limit += 1.0;
        }
        self.limit = self.limit.clamp(LEAST, MOST);
    }
}
