//! How many requests the engine runs at once, where it doesn't say.
//!
//! While it reports requests that wait for capacity, `running` is all that it takes. One such
//! moment proves little: a burst of prompts keeps requests waiting for a step or two although seats
//! are free. So it must last. And since the sidecar keeps the engine from filling up once the
//! number is known, a number learned too low would never be corrected: after half a minute at the
//! number without anybody waiting, one more is tried.

use fairtide_engine::EngineGauges;

/// Readings in a row, one a second, that show a full engine before it is believed.
const FULL_READINGS: u32 = 3;

/// Readings in a row at the number and with nobody waiting, after which one more is tried.
const ROOMY_READINGS: u32 = 30;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeatLearner {
    seats: Option<u32>,
    full_for: u32,
    most_while_full: u32,
    roomy_for: u32,
}

// === impl SeatLearner ===

impl SeatLearner {
    /// What is known after another reading.
    pub(super) fn observe(&mut self, gauges: &EngineGauges) -> Option<u32> {
        let (Some(running), Some(full)) = (gauges.running, gauges.is_full()) else {
            self.miss();
            return self.seats;
        };
        let running = u32::try_from(running).unwrap_or(u32::MAX);
        if full {
            self.roomy_for = 0;
            self.full_for += 1;
            self.most_while_full = self.most_while_full.max(running);
            if self.full_for >= FULL_READINGS && self.most_while_full > 0 {
                self.seats = Some(self.most_while_full);
            }
            return self.seats;
        }
        self.full_for = 0;
        self.most_while_full = 0;
        let seats = self.seats?;
        if running > seats {
            self.seats = Some(running);
        }
        self.roomy_for = if running >= seats {
            self.roomy_for + 1
        } else {
            0
        };
        if self.roomy_for >= ROOMY_READINGS {
            self.roomy_for = 0;
            self.seats = Some(seats.saturating_add(1));
        }
        self.seats
    }

    /// A reading is missing: what was seen before doesn't count as in a row.
    pub(super) fn miss(&mut self) {
        self.full_for = 0;
        self.most_while_full = 0;
        self.roomy_for = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(running: u64, waiting: u64) -> EngineGauges {
        EngineGauges {
            running: Some(running),
            waiting: Some(waiting),
            waiting_for_capacity: Some(waiting),
            ..EngineGauges::default()
        }
    }

    fn learn(readings: &[(u64, u64)]) -> Option<u32> {
        let mut learner = SeatLearner::default();
        let mut seats = None;
        for &(running, waiting) in readings {
            seats = learner.observe(&reading(running, waiting));
        }
        seats
    }

    #[test]
    fn an_engine_that_stays_full_shows_its_seats() {
        assert_eq!(learn(&[(15, 3), (16, 3), (16, 2)]), Some(16));
        assert_eq!(learn(&[(16, 0); 10]), None, "never full, never known");
    }

    #[test]
    fn a_moment_of_waiting_proves_nothing() {
        assert_eq!(learn(&[(0, 10), (2, 10), (8, 0), (3, 5), (9, 0)]), None);
        assert_eq!(learn(&[(0, 5), (0, 5), (0, 5)]), None, "a stuck engine");
    }

    #[test]
    fn a_number_learned_too_low_is_corrected() {
        let mut learner = SeatLearner::default();
        for _ in 0..FULL_READINGS {
            learner.observe(&reading(12, 1));
        }
        assert_eq!(learner.observe(&reading(12, 0)), Some(12));
        let mut seats = None;
        for _ in 0..ROOMY_READINGS {
            seats = learner.observe(&reading(12, 0));
        }
        assert_eq!(seats, Some(13));
        assert_eq!(learner.observe(&reading(16, 0)), Some(16), "seen to run");
        for _ in 0..FULL_READINGS {
            seats = learner.observe(&reading(14, 2));
        }
        assert_eq!(seats, Some(14), "and one too high as well");
    }

    #[test]
    fn a_page_that_says_nothing_changes_nothing() {
        let mut learner = SeatLearner::default();
        for _ in 0..FULL_READINGS {
            learner.observe(&reading(8, 1));
        }
        assert_eq!(learner.observe(&EngineGauges::default()), Some(8));
    }
}
