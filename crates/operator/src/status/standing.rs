//! The status of an object of either kind, and how a new one is laid over the old.

use fairtide_api::{
    Condition, InferencePoolStatus, PoolPods, TrafficClassStatus,
    conditions::{
        ACCEPTED, CONFLICTED, INJECTED, PROGRAMMED, READY, RECONCILING, RESOLVED_REFS, STALLED,
    },
};
use fairtide_resolve::{Finding, Status};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::Value;

/// The order in which conditions are shown.
const ORDER: [&str; 8] = [
    READY,
    ACCEPTED,
    RESOLVED_REFS,
    INJECTED,
    PROGRAMMED,
    CONFLICTED,
    RECONCILING,
    STALLED,
];

/// The API server takes no longer message in a condition.
const MAX_MESSAGE_BYTES: usize = 32_768;

/// The status of a pool or class.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The generation that it is about; -1: none.
    pub observed_generation: i64,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// Its numbers.
    pub counts: Counts,
}

/// What is counted in a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// A pool's pods.
    Pods(Option<PoolPods>),
    /// How many pools a class serves.
    Pools(Option<i32>),
}

// === impl Standing ===

impl Standing {
    /// What a status says. Conditions that others wrote are none of ours.
    pub fn read(observed_generation: i64, conditions: &[Condition], counts: Counts) -> Self {
        let ours = conditions
            .iter()
            .filter(|condition| ORDER.contains(&condition.type_.as_str()));
        Self {
            observed_generation,
            conditions: ours.cloned().collect(),
            counts,
        }
    }

    /// What the status becomes: these findings about this generation. A condition keeps its time
    /// unless its status flips; those that are not found any more are gone.
    pub fn renewed(
        old: Option<&Self>,
        generation: i64,
        findings: &[Finding],
        counts: Counts,
        now: Timestamp,
    ) -> Self {
        let mut conditions: Vec<Condition> = findings
            .iter()
            .map(|found| {
                let before = old.and_then(|old| old.condition(found.type_));
                let since = before
                    .filter(|before| before.status == found.status.as_str())
                    .map_or_else(
                        || whole_second(now),
                        |before| before.last_transition_time.clone(),
                    );
                Condition {
                    type_: found.type_.to_owned(),
                    status: found.status.as_str().to_owned(),
                    reason: found.reason.to_owned(),
                    message: bounded(&found.message),
                    last_transition_time: since,
                    observed_generation: Some(generation),
                }
            })
            .collect();
        conditions.sort_by_key(|condition| {
            let place = ORDER.iter().position(|type_| *type_ == condition.type_);
            place.unwrap_or(ORDER.len())
        });
        Self {
            observed_generation: generation,
            conditions,
            counts,
        }
    }

    /// A condition by its type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|found| found.type_ == type_)
    }

    /// Whether both say the same, in whatever order.
    pub fn same_as(&self, other: &Self) -> bool {
        self.observed_generation == other.observed_generation
            && self.counts == other.counts
            && self.conditions.len() == other.conditions.len()
            && self
                .conditions
                .iter()
                .all(|condition| other.condition(&condition.type_) == Some(condition))
    }

    /// The `status` of the object.
    pub fn to_json(&self) -> Value {
        let conditions = self.conditions.clone();
        let observed_generation = self.observed_generation;
        let json = match self.counts {
            Counts::Pods(pods) => serde_json::to_value(InferencePoolStatus {
                observed_generation,
                pods,
                conditions,
            }),
            Counts::Pools(pools) => serde_json::to_value(TrafficClassStatus {
                observed_generation,
                pools,
                conditions,
            }),
        };
        json.expect("a status has only string keys")
    }
}

/// The API keeps no smaller part of a time.
fn whole_second(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

fn bounded(message: &str) -> String {
    let mut end = message.len().min(MAX_MESSAGE_BYTES);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message[..end].to_owned()
}

/// A finding, for the conditions that depend on sidecars.
pub(super) fn finding(
    type_: &'static str,
    status: Status,
    reason: &'static str,
    message: impl Into<String>,
) -> Finding {
    Finding {
        type_,
        status,
        reason,
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLY: i64 = 1_700_000_000;
    const LATE: i64 = 1_700_000_100;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(status: Status, message: &str) -> Finding {
        finding(READY, status, "Because", message)
    }

    fn standing(old: Option<&Standing>, generation: i64, found: &[Finding], now: i64) -> Standing {
        Standing::renewed(old, generation, found, Counts::Pools(Some(1)), at(now))
    }

    fn since(standing: &Standing) -> i64 {
        standing.conditions[0].last_transition_time.0.as_second()
    }

    #[test]
    fn the_time_moves_only_when_the_status_flips() {
        let first = standing(None, 1, &[ready(Status::False, "a")], EARLY);
        let same = standing(Some(&first), 2, &[ready(Status::False, "b")], LATE);
        assert_eq!(since(&same), EARLY);
        assert_eq!(same.conditions[0].message, "b");
        assert_eq!(same.conditions[0].observed_generation, Some(2));
        let flipped = standing(Some(&same), 2, &[ready(Status::True, "b")], LATE);
        assert_eq!(since(&flipped), LATE);
    }

    #[test]
    fn the_same_findings_make_the_same_status_whenever() {
        let first = standing(None, 1, &[ready(Status::True, "a")], EARLY);
        let again = standing(Some(&first), 1, &[ready(Status::True, "a")], LATE);
        assert!(again.same_as(&first));
        let edited = standing(Some(&first), 2, &[ready(Status::True, "a")], LATE);
        assert!(!edited.same_as(&first));
    }

    #[test]
    fn conditions_that_are_not_found_any_more_are_gone() {
        let stalled = finding(STALLED, Status::True, "Invalid", "");
        let first = standing(None, 1, &[stalled, ready(Status::False, "")], EARLY);
        assert_eq!(first.conditions[0].type_, READY);
        let second = standing(Some(&first), 2, &[ready(Status::False, "")], LATE);
        assert!(second.condition(STALLED).is_none());
        assert!(!second.same_as(&first));
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        let long = "ä".repeat(MAX_MESSAGE_BYTES);
        let standing = standing(None, 1, &[ready(Status::True, &long)], EARLY);
        let message = &standing.conditions[0].message;
        assert!(message.len() <= MAX_MESSAGE_BYTES && message.chars().all(|c| c == 'ä'));
    }
}
