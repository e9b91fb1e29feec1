//! Whether this process is up and wants traffic.
//!
//! A process is started once every condition has held at the same time, and stays so; it is ready
//! while all of them hold and it isn't draining. Liveness is answered by the admin server itself:
//! it says nothing of the engine, whose slow start must not get the sidecar killed.

use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// Shared between those who know the conditions and the probes that ask.
#[derive(Clone, Debug)]
pub struct Health {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    conditions: BTreeMap<&'static str, bool>,
    started: bool,
    draining: bool,
}

// === impl Health ===

impl Health {
    /// Not started, until each of these conditions was [met](Health::set).
    pub fn new(conditions: &[&'static str]) -> Self {
        let state = State {
            conditions: conditions.iter().map(|&name| (name, false)).collect(),
            started: conditions.is_empty(),
            draining: false,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Whether a condition holds from now on.
    pub fn set(&self, condition: &'static str, holds: bool) {
        let mut state = self.state.lock();
        state.conditions.insert(condition, holds);
        state.started |= state.conditions.values().all(|&holds| holds);
    }

    /// The start is over, whatever else traffic waits for.
    pub fn started(&self) {
        self.state.lock().started = true;
    }

    /// New traffic is wanted again: it was no end.
    pub fn resume(&self) {
        self.state.lock().draining = false;
    }

    /// No new traffic is wanted any more.
    pub fn drain(&self) {
        self.state.lock().draining = true;
    }

    /// Whether every condition has held once.
    pub fn is_started(&self) -> bool {
        self.state.lock().started
    }

    /// What stands in the way of traffic; empty: nothing does.
    pub fn missing(&self) -> Vec<&'static str> {
        let state = self.state.lock();
        let conditions = state.conditions.iter().filter(|(_, holds)| !**holds);
        let mut missing: Vec<_> = conditions.map(|(&name, _)| name).collect();
        if state.draining {
            missing.push("draining");
        }
        missing
    }

    /// Whether traffic is wanted.
    pub fn is_ready(&self) -> bool {
        self.missing().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_while_all_conditions_hold_and_nobody_drains() {
        let health = Health::new(&["listeners", "policy"]);
        assert!(!health.is_started() && !health.is_ready());
        health.set("policy", true);
        assert_eq!(health.missing(), ["listeners"]);
        health.set("listeners", true);
        assert!(health.is_started() && health.is_ready());
        health.set("policy", false);
        assert!(health.is_started(), "a start isn't taken back");
        assert!(!health.is_ready());
        health.set("policy", true);
        health.drain();
        assert_eq!(health.missing(), ["draining"]);
        health.resume();
        assert!(health.is_ready());
    }
}
