//! Averages that forget: sums whose old parts count less, by a time constant.

use std::time::Duration;

/// A sum of amounts over a sum of weights, both fading with the time constant `tau`.
///
/// With seconds as weights it is a rate, with ones a mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decayed {
    tau: f64,
    amount: f64,
    weight: f64,
    at: Duration,
}

// === impl Decayed ===

impl Decayed {
    pub(crate) fn new(tau: Duration, now: Duration) -> Self {
        Self {
            tau: tau.as_secs_f64(),
            amount: 0.0,
            weight: 0.0,
            at: now,
        }
    }

    pub(crate) fn add(&mut self, amount: f64, weight: f64, now: Duration) {
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        if elapsed > 0.0 {
            let keep = (-elapsed / self.tau).exp();
            self.amount *= keep;
            self.weight *= keep;
            self.at = now;
        }
        self.amount += amount;
        self.weight += weight;
    }

    /// Amount per weight; `None` while less than `least` weight was seen.
    pub(crate) fn ratio(&self, least: f64) -> Option<f64> {
        (self.weight >= least && self.weight > 0.0).then(|| self.amount / self.weight)
    }

    /// The weight that still counts.
    pub(crate) fn weight(&self, now: Duration) -> f64 {
        self.weight * (-now.saturating_sub(self.at).as_secs_f64() / self.tau).exp()
    }
}
