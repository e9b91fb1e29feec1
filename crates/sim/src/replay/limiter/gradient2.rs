//! Netflix concurrency-limits, `Gradient2Limit` (commit 78a74b9): the long-term mean against the
//! short-term one. The least limit is 1 in the place of 20, as in AIMD.

use super::{Limiter, Window};

const START: f64 = 20.0;
const LEAST: f64 = 1.0;
const MOST: f64 = 200.0;
const SMOOTHING: f64 = 0.2;
const QUEUE: f64 = 4.0;
const TOLERANCE: f64 = 1.5;
/// Windows of the long-term mean; the first ones are averaged plainly.
const LONG: f64 = 600.0;
const WARM_UP: f64 = 10.0;

#[derive(Clone, Copy, Debug)]
pub(in crate::replay) struct Gradient2 {
    limit: f64,
    long: f64,
    sum: f64,
    count: f64,
}

// === impl Gradient2 ===

impl Gradient2 {
    pub fn new() -> Self {
        Self {
            limit: START,
            long: 0.0,
            sum: 0.0,
            count: 0.0,
        }
    }

    fn average(&mut self, short: f64) {
        if self.count < WARM_UP {
            self.count += 1.0;
            self.sum += short;
            self.long = self.sum / self.count;
        } else {
            let factor = 2.0 / (LONG + 1.0);
            self.long = self.long * (1.0 - factor) + short * factor;
        }
    }
}

impl Limiter for Gradient2 {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn observe(&mut self, window: Window) {
        let short = window.mean_ms;
        self.average(short);
        let long = self.long;
        // The load fell: the long-term mean must not take minutes to follow.
        if long / short > 2.0 {
            self.long *= 0.95;
        }
        if window.in_flight < self.limit / 2.0 {
            return;
        }
        let gradient = (TOLERANCE * long / short).clamp(0.5, 1.0);
        let aim = self.limit * gradient + QUEUE;
        let limit = self.limit * (1.0 - SMOOTHING) + aim * SMOOTHING;
        self.limit = limit.clamp(LEAST, MOST);
    }
}
