//! A cap on all requests, and bands of priority before it: the highest band goes first, in the
//! order of arrival. Two rivals are this one rule.
//!
//! `haproxy:N` is `maxconn N` on the server with `http-request set-priority-class` (HAProxy's
//! configuration manual). `strict-priority` is the flow control of llm-d's scheduler (Gateway API
//! inference extension, `flowcontrol`, strict bands with FIFO in each), with the engine's seats
//! as the saturation that holds requests back.

use super::{Asked, Done, Front, Verdict};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

#[derive(Debug)]
pub(in crate::replay) struct Banded {
    most: usize,
    in_flight: usize,
    bands: BTreeMap<Reverse<i32>, VecDeque<u64>>,
}

// === impl Banded ===

impl Banded {
    pub fn new(most: usize) -> Self {
        Self {
            most,
            in_flight: 0,
            bands: BTreeMap::new(),
        }
    }
}

impl Front for Banded {
    fn arrive(&mut self, asked: Asked, _now: Duration) {
        let band = self.bands.entry(Reverse(asked.priority)).or_default();
        band.push_back(asked.id);
    }

    fn done(&mut self, _done: Done, _now: Duration) {
        self.in_flight -= 1;
    }

    fn limit(&self) -> Option<f64> {
        Some(self.most as f64)
    }

    fn poll(&mut self, _now: Duration) -> Option<Verdict> {
        if self.in_flight >= self.most {
            return None;
        }
        let id = self.bands.values_mut().find_map(VecDeque::pop_front)?;
        self.in_flight += 1;
        Some(Verdict::Start(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: u64, priority: i32) -> Asked {
        Asked {
            id,
            class: "c".into(),
            interactive: priority > 0,
            priority,
            tenant: "t".into(),
            prompt_tokens: 1,
        }
    }

    #[test]
    fn a_higher_band_goes_first_and_the_cap_holds_everybody() {
        let mut front = Banded::new(2);
        let now = Duration::ZERO;
        for (id, priority) in [(1, 0), (2, 0), (3, 9), (4, 9)] {
            front.arrive(asked(id, priority), now);
        }
        assert_eq!(front.poll(now), Some(Verdict::Start(3)));
        assert_eq!(front.poll(now), Some(Verdict::Start(4)));
        assert_eq!(front.poll(now), None);
    }
}
