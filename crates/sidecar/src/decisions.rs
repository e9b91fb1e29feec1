//! The last decisions, for a person who asks why a request was held or refused. No prompt, no key,
//! no raw tenant.

use fairtide_scheduler::{Outcome, Reason};
use parking_lot::Mutex;
use serde::Serialize;
use std::{collections::VecDeque, sync::Arc, time::SystemTime};

/// How many are kept.
const KEPT: usize = 1000;

/// One request's end.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decided {
    /// Seconds since the epoch.
    pub(crate) at: f64,
    pub(crate) request_id: Arc<str>,
    pub(crate) class: Arc<str>,
    /// A hash, or the name of those without a key.
    pub(crate) tenant: Arc<str>,
    pub(crate) outcome: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) queue_ms: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) output_tokens: Option<u64>,
}

/// A ring of the last decisions.
#[derive(Debug, Default)]
pub(crate) struct Decisions(Mutex<VecDeque<Decided>>);

// === impl Decided ===

impl Decided {
    /// The word of an outcome and of the reason for it.
    pub(crate) fn words(outcome: Outcome, reason: Reason) -> (&'static str, &'static str) {
        (outcome.as_str(), reason.as_str())
    }

    /// The wall clock, for people: nothing is decided by it.
    pub(crate) fn wall_clock() -> f64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0.0, |since| since.as_millis() as f64 / 1000.0)
    }
}

// === impl Decisions ===

impl Decisions {
    pub(crate) fn push(&self, decided: Decided) {
        let mut ring = self.0.lock();
        if ring.len() == KEPT {
            ring.pop_front();
        }
        ring.push_back(decided);
    }

    /// The newest first.
    pub(crate) fn newest_first(&self) -> Vec<Decided> {
        self.0.lock().iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_newest() {
        let decisions = Decisions::default();
        for n in 0..KEPT + 5 {
            decisions.push(Decided {
                at: 0.0,
                request_id: n.to_string().into(),
                class: "c".into(),
                tenant: "t".into(),
                outcome: "completed",
                reason: "interactive",
                queue_ms: 0,
                prompt_tokens: 1,
                output_tokens: None,
            });
        }
        let kept = decisions.newest_first();
        assert_eq!(kept.len(), KEPT);
        assert_eq!(&*kept[0].request_id, (KEPT + 4).to_string());
        assert_eq!(&*kept[KEPT - 1].request_id, "5");
    }
}
