//! Envoy's adaptive concurrency filter (`gradient_controller.cc`), with the constant minRTT that
//! `fixed_value` sets: measuring it would pin the concurrency to 3 for a while, which no batch
//! queue bears. The minRTT is what makes minRTT and buffer together the objective.

use super::{Limiter, Window};

const LEAST: f64 = 3.0;
const MOST: f64 = 1000.0;

#[derive(Clone, Copy, Debug)]
pub(in crate::replay) struct Envoy {
    limit: f64,
    /// minRTT × (1 + buffer).
    objective_ms: f64,
}

// === impl Envoy ===

impl Envoy {
    pub fn new(objective_ms: f64) -> Self {
        Self {
            limit: LEAST,
            objective_ms,
        }
    }
}

impl Limiter for Envoy {
    fn limit(&self) -> f64 {
        self.limit
    }

    fn observe(&mut self, window: Window) {
        // sample_aggregate_percentile is p50 by default.
        let gradient = (self.objective_ms / window.median_ms).clamp(0.5, 2.0);
        let limit = self.limit * gradient;
        self.limit = (limit + limit.sqrt()).clamp(LEAST, MOST);
    }
}
