//! A cap on the batch requests in the engine; interactive ones pass at once. With a fixed cap this
//! is `static:N`. With the others a limiter moves the cap by the time between tokens, which takes
//! the place of the request latency that these limiters were written for: an LLM answer's latency
//! is its length more than the engine's load.

use super::{Asked, Came, Done, Front, Verdict};
use crate::replay::limiter::{Limiter, Window};
use std::{collections::VecDeque, time::Duration};

/// Limiters see means over windows of this length (concurrency-limits, `WindowedLimit`).
const WINDOW: Duration = Duration::from_secs(1);
/// Fewer samples don't make a window; it goes on until there are enough.
const LEAST_SAMPLES: usize = 10;

pub(in crate::replay) struct Capped {
    limiter: Box<dyn Limiter>,
    due: VecDeque<u64>,
    batch: VecDeque<u64>,
    batch_in_flight: usize,
    most_in_flight: usize,
    gaps: Vec<f64>,
    window_ends: Duration,
}

// === impl Capped ===

impl Capped {
    pub fn new(limiter: Box<dyn Limiter>) -> Self {
        Self {
            limiter,
            due: VecDeque::new(),
            batch: VecDeque::new(),
            batch_in_flight: 0,
            most_in_flight: 0,
            gaps: Vec::new(),
            window_ends: WINDOW,
        }
    }
}

impl Front for Capped {
    fn arrive(&mut self, asked: Asked, _now: Duration) {
        match asked.interactive {
            true => self.due.push_back(asked.id),
            false => self.batch.push_back(asked.id),
        }
    }

    fn token(&mut self, came: Came, now: Duration) {
        self.gaps
            .extend(came.gap.map(|gap| gap.as_secs_f64() * 1e3));
        if now < self.window_ends || self.gaps.len() < LEAST_SAMPLES {
            return;
        }
        self.gaps.sort_by(f64::total_cmp);
        self.limiter.observe(Window {
            mean_ms: self.gaps.iter().sum::<f64>() / self.gaps.len() as f64,
            median_ms: self.gaps[self.gaps.len() / 2],
            in_flight: self.most_in_flight as f64,
        });
        self.gaps.clear();
        self.most_in_flight = self.batch_in_flight;
        self.window_ends = now + WINDOW;
    }

    fn done(&mut self, done: Done, _now: Duration) {
        if !done.interactive {
            self.batch_in_flight -= 1;
        }
    }

    fn limit(&self) -> Option<f64> {
        Some(self.limiter.limit().max(1.0))
    }

    fn poll(&mut self, _now: Duration) -> Option<Verdict> {
        if let Some(id) = self.due.pop_front() {
            return Some(Verdict::Start(id));
        }
        // At least one, or nothing would ever be seen again.
        if self.batch_in_flight >= (self.limiter.limit() as usize).max(1) {
            return None;
        }
        let id = self.batch.pop_front()?;
        self.batch_in_flight += 1;
        self.most_in_flight = self.most_in_flight.max(self.batch_in_flight);
        Some(Verdict::Start(id))
    }
}
