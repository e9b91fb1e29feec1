//! Tokens over time, by class: what throughput in a part of a run is counted from.

use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

/// The width of a slot.
const SLOT: Duration = Duration::from_millis(100);

/// Grows while a run goes on; clones share it.
#[derive(Clone, Debug)]
pub struct Timeline(Arc<Mutex<Vec<Vec<u64>>>>);

// === impl Timeline ===

impl Timeline {
    /// An empty one for so many classes.
    pub fn new(classes: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![Vec::new(); classes])))
    }

    /// Notes tokens of a class that came `at` after the start.
    pub fn add(&self, class: usize, tokens: u64, at: Duration) {
        let slot = (at.as_millis() / SLOT.as_millis()) as usize;
        let mut classes = self.0.lock();
        let slots = &mut classes[class];
        if slots.len() <= slot {
            slots.resize(slot + 1, 0);
        }
        slots[slot] += tokens;
    }

    /// Says for each class and slot, by its start, how many tokens came in it.
    pub fn each(&self, mut say: impl FnMut(usize, Duration, u64)) {
        for (class, slots) in self.0.lock().iter().enumerate() {
            for (slot, tokens) in slots.iter().enumerate() {
                say(class, SLOT * slot as u32, *tokens);
            }
        }
    }

    /// Tokens per second of a class between two times, to the tenth of a second.
    pub fn per_second(&self, class: usize, from: Duration, to: Duration) -> f64 {
        let slot = |time: Duration| (time.as_millis() / SLOT.as_millis()) as usize;
        let (from, to) = (slot(from), slot(to));
        if to <= from {
            return 0.0;
        }
        let classes = self.0.lock();
        let slots = classes[class].iter().skip(from).take(to - from);
        slots.sum::<u64>() as f64 / ((to - from) as f64 * SLOT.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_within_the_window_counts() {
        let timeline = Timeline::new(2);
        let at = Duration::from_millis;
        timeline.add(0, 5, at(999));
        timeline.add(0, 10, at(1000));
        timeline.add(0, 30, at(2950));
        timeline.add(0, 7, at(3000));
        timeline.add(1, 100, at(2000));
        assert_eq!(timeline.per_second(0, at(1000), at(3000)), 20.0);
        assert_eq!(timeline.per_second(1, at(1000), at(3000)), 50.0);
        assert_eq!(timeline.per_second(1, at(9000), at(9500)), 0.0);
        assert_eq!(timeline.per_second(1, at(9000), at(9000)), 0.0);
    }
}
