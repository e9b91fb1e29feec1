//! How a run went over time: tokens, gaps, requests and the limit, in at most [`MOST_SLOTS`] slots.
//!
//! The slots begin narrow. When a run outlasts them, pairs become one and each is twice as wide; so
//! a day needs as much memory as a minute.

use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// Slots begin so wide.
const FIRST_WIDTH: Duration = Duration::from_millis(100);
/// More slots than these become half as many. An even number.
const MOST_SLOTS: usize = 240;

/// What happened to one class in one slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    tokens: u64,
    gap_s: f64,
    gap_tokens: f64,
    /// Seconds, over all requests, spent before the engine.
    queued_s: f64,
    /// The same in the engine, its own queue included.
    in_flight_s: f64,
    refused: u64,
}

/// Takes notes while a run goes on.
#[derive(Clone, Debug)]
pub struct Recorder {
    width: Duration,
    classes: Vec<Vec<Slot>>,
    /// Sum and number of the looks at the limit.
    limit: Vec<(f64, u64)>,
    /// The slot that was last written to: mostly the next one is the same.
    last: (Duration, Duration, usize),
}

/// A run over time. Each list has a value for each slot; `null` stands for "there was none".
#[derive(Clone, Debug, Default, Serialize)]
pub struct TimelineRun {
    /// The width of a slot; the last one may be cut off by the end of the run.
    pub slot_s: f64,
    /// How many requests the policy allowed in the engine; empty where it has no limit.
    pub limit: Vec<Option<f64>>,
    /// By class.
    pub classes: BTreeMap<String, ClassTimeline>,
}

/// One class over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClassTimeline {
    /// Tokens that came.
    pub output_tokens_per_s: Vec<f64>,
    /// The mean time between tokens.
    pub tpot_ms: Vec<Option<f64>>,
    /// Requests in the engine, its own queue included; the mean.
    pub in_flight: Vec<f64>,
    /// Requests held before it; the mean.
    pub queued: Vec<f64>,
    /// Requests refused.
    pub refused: Vec<u64>,
}

// === impl Recorder ===

impl Recorder {
    /// Empty notes on so many classes.
    pub fn new(classes: usize) -> Self {
        Self {
            width: FIRST_WIDTH,
            classes: vec![Vec::new(); classes],
            limit: Vec::new(),
            last: (Duration::ZERO, Duration::ZERO, 0),
        }
    }

    /// Tokens came.
    pub fn tokens(&mut self, class: usize, at: Duration, count: u64) {
        self.slot(class, at).tokens += count;
    }

    /// A token came so long after the one before.
    pub fn gap(&mut self, class: usize, at: Duration, gap: Duration) {
        let slot = self.slot(class, at);
        slot.gap_s += gap.as_secs_f64();
        slot.gap_tokens += 1.0;
    }

    /// So many tokens came between two moments, one after the other.
    pub fn gaps(&mut self, class: usize, from: Duration, to: Duration, tokens: u64) {
        let per_second = tokens as f64 / to.saturating_sub(from).as_secs_f64();
        self.spread(class, from, to, |slot, seconds| {
            slot.gap_s += seconds;
            slot.gap_tokens += seconds * per_second;
        });
    }

    /// A request was refused.
    pub fn refused(&mut self, class: usize, at: Duration) {
        self.slot(class, at).refused += 1;
    }

    /// A request was held before the engine.
    pub fn queued(&mut self, class: usize, from: Duration, to: Duration) {
        self.spread(class, from, to, |slot, seconds| slot.queued_s += seconds);
    }

    /// A request was in the engine.
    pub fn in_flight(&mut self, class: usize, from: Duration, to: Duration) {
        self.spread(class, from, to, |slot, seconds| slot.in_flight_s += seconds);
    }

    /// The limit was seen to be this.
    pub fn limit(&mut self, at: Duration, limit: f64) {
        let index = self.index(at);
        if self.limit.len() <= index {
            self.limit.resize(index + 1, (0.0, 0));
        }
        let (sum, looks) = &mut self.limit[index];
        *sum += limit;
        *looks += 1;
    }

    /// The notes of a run that ended then, of classes of these names.
    pub fn finish<'a>(
        mut self,
        names: impl IntoIterator<Item = &'a str>,
        end: Duration,
    ) -> TimelineRun {
        // The latest moment settles the width; what came just then belongs to the slot before it.
        self.index(end);
        let slots = end.as_nanos().div_ceil(self.width.as_nanos()).max(1) as usize;
        let width = self.width.as_secs_f64();
        let mut seconds = vec![width; slots];
        if let Some(last) = seconds.last_mut() {
            let rest = end.as_secs_f64() - width * (slots - 1) as f64;
            *last = rest.clamp(width / 100.0, width);
        }
        for class in &mut self.classes {
            let over = class.get(slots - 1..).map(Slot::merged);
            class.resize(slots, Slot::default());
            class[slots - 1] = over.unwrap_or_default();
        }
        let mut limit = Vec::new();
        if self.limit.iter().any(|(_, looks)| *looks > 0) {
            self.limit.resize(slots, (0.0, 0));
            let means = self.limit.iter();
            let means = means.map(|(sum, looks)| (*looks > 0).then(|| sum / *looks as f64));
            // It stays what it was while nobody looks.
            let mut before = None;
            limit.extend(means.map(|mean| {
                before = mean.or(before);
                before.map(rounded)
            }));
        }
        let classes = names.into_iter().zip(self.classes).map(|(name, class)| {
            let per_second = |value: &dyn Fn(&Slot) -> f64| {
                let pairs = class.iter().zip(&seconds);
                pairs.map(|(slot, s)| rounded(value(slot) / s)).collect()
            };
            let tpot = class.iter().map(|slot| {
                let mean = slot.gap_s * 1e3 / slot.gap_tokens;
                (slot.gap_tokens > 0.0).then(|| rounded(mean))
            });
            let timeline = ClassTimeline {
                output_tokens_per_s: per_second(&|slot| slot.tokens as f64),
                tpot_ms: tpot.collect(),
                in_flight: per_second(&|slot| slot.in_flight_s),
                queued: per_second(&|slot| slot.queued_s),
                refused: class.iter().map(|slot| slot.refused).collect(),
            };
            (name.to_owned(), timeline)
        });
        TimelineRun {
            slot_s: width,
            limit,
            classes: classes.collect(),
        }
    }

    fn slot(&mut self, class: usize, at: Duration) -> &mut Slot {
        let index = self.index(at);
        let slots = &mut self.classes[class];
        if slots.len() <= index {
            slots.resize(index + 1, Slot::default());
        }
        &mut slots[index]
    }

    fn index(&mut self, at: Duration) -> usize {
        let (from, to, index) = self.last;
        if (from..to).contains(&at) {
            return index;
        }
        let mut index = (at.as_nanos() / self.width.as_nanos()) as usize;
        while index >= MOST_SLOTS {
            self.widen();
            index /= 2;
        }
        let from = self.width * index as u32;
        self.last = (from, from + self.width, index);
        index
    }

    fn widen(&mut self) {
        self.width *= 2;
        for slots in &mut self.classes {
            *slots = slots.chunks(2).map(Slot::merged).collect();
        }
        let merged = self.limit.chunks(2).map(|pair| {
            let (sums, looks): (Vec<f64>, Vec<u64>) = pair.iter().copied().unzip();
            (sums.iter().sum(), looks.iter().sum())
        });
        self.limit = merged.collect();
    }

    /// Adds the time between two moments to the slots in which it passed.
    fn spread(&mut self, class: usize, from: Duration, to: Duration, add: impl Fn(&mut Slot, f64)) {
        if to <= from {
            return;
        }
        // The latest first, so that the width is settled.
        self.index(to);
        let mut from = from;
        while from < to {
            let index = self.index(from);
            let until = (self.width * (index as u32 + 1)).min(to);
            add(self.slot(class, from), (until - from).as_secs_f64());
            from = until;
        }
    }
}

// === impl Slot ===

impl Slot {
    fn merged(pair: &[Slot]) -> Slot {
        pair.iter().fold(Slot::default(), |sum, slot| Slot {
            tokens: sum.tokens + slot.tokens,
            gap_s: sum.gap_s + slot.gap_s,
            gap_tokens: sum.gap_tokens + slot.gap_tokens,
            queued_s: sum.queued_s + slot.queued_s,
            in_flight_s: sum.in_flight_s + slot.in_flight_s,
            refused: sum.refused + slot.refused,
        })
    }
}

/// To a thousandth: more would only pretend.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_day_takes_no_more_slots_than_a_minute_and_loses_nothing() {
        for seconds in [1, 60, 86_400] {
            let mut recorder = Recorder::new(1);
            for second in 0..seconds {
                let at = SECOND * second;
                recorder.tokens(0, at, 3);
                recorder.gap(0, at, Duration::from_millis(8));
                recorder.gaps(0, at, at + SECOND / 100, 1);
                recorder.in_flight(0, at, at + SECOND);
                recorder.limit(at, 16.0);
            }
            let end = SECOND * seconds;
            let run = recorder.finish(["chat"], end);
            let chat = &run.classes["chat"];
            assert!(chat.in_flight.len() <= MOST_SLOTS);
            let last = chat.in_flight.len() - 1;
            let widths = (0..=last).map(|at| match at {
                at if at == last => end.as_secs_f64() - run.slot_s * at as f64,
                _ => run.slot_s,
            });
            let tokens = chat.output_tokens_per_s.iter().zip(widths);
            let tokens: f64 = tokens.map(|(rate, width)| rate * width).sum();
            let wanted = f64::from(seconds) * 3.0;
            assert!((tokens / wanted - 1.0).abs() < 0.01, "{tokens} of {wanted}");
            let busy = chat.in_flight[..last]
                .iter()
                .all(|mean| (mean - 1.0).abs() < 0.01);
            assert!(busy, "{:?}", chat.in_flight);
            assert!(
                chat.tpot_ms
                    .iter()
                    .flatten()
                    .all(|tpot| (*tpot - 9.0).abs() < 0.01)
            );
            assert!(run.limit.iter().all(|limit| *limit == Some(16.0)));
        }
    }

    #[test]
    fn what_never_was_is_none_and_not_zero() {
        let mut recorder = Recorder::new(2);
        recorder.tokens(0, Duration::ZERO, 1);
        recorder.refused(1, Duration::from_millis(250));
        let run = recorder.finish(["chat", "batch"], Duration::from_millis(400));
        assert!(run.limit.is_empty());
        assert!(run.classes["batch"].tpot_ms.iter().all(Option::is_none));
        assert_eq!(run.classes["batch"].refused, [0, 0, 1, 0]);
    }

    #[test]
    fn notes_may_come_in_any_order() {
        let mut recorder = Recorder::new(1);
        recorder.in_flight(0, Duration::ZERO, SECOND * 100);
        recorder.queued(0, SECOND * 10, SECOND * 20);
        let run = recorder.finish(["chat"], SECOND * 100);
        let chat = &run.classes["chat"];
        let at = |seconds: f64| (seconds / run.slot_s) as usize;
        assert_eq!(chat.queued[at(15.0)], 1.0);
        assert_eq!(chat.queued[at(50.0)], 0.0);
        assert_eq!(chat.in_flight[at(50.0)], 1.0);
    }
}
