//! Who may push and write: of several replicas, the holder of one Lease.
//!
//! All replicas watch; the holder alone pushes snapshots and writes status and Events. What to do
//! is decided by [`decide`], a pure function; [`keeper`] reads and writes the object.
//!
//! The times inside the Lease are written for people and other tools, and never read here: clocks
//! of two nodes may differ by minutes. A candidate takes over when it has seen the record
//! *unchanged by its own clock* for the lease's duration. The holder stops a third earlier, when
//! its last renewal is [`Timings::renew_deadline`] old, so that two never hold at once. Losing the
//! lease ends no process and no cache: a slow API server must not restart the operator.

pub mod keeper;

use std::time::Duration;
use tokio::time::Instant;

/// How long a lease holds and how often it is looked at. The usual figures of Kubernetes' own
/// controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// A record that stays unchanged for this long has no holder any more.
    pub duration: Duration,
    /// A holder that couldn't renew for this long stops pushing and writing.
    pub renew_deadline: Duration,
    /// Between two looks at the record.
    pub retry: Duration,
}

/// What a candidate saw of the Lease, and when that last changed by its own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Who holds it; `None`: vacated.
    pub holder: Option<String>,
    /// The holder's own promise of how long a record lasts.
    pub duration: Duration,
    /// When this candidate first saw the record as it is now.
    pub changed_at: Instant,
}

/// What a candidate does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write oneself into the record.
    Acquire,
    /// Write the record again, to keep it.
    Renew,
    /// Another holds it; it can't be free before this has passed.
    Wait(Duration),
    /// Another holds it, though this candidate held it before: stop pushing and writing at once.
    Lost,
}

/// Whether the lease is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Not known: at the start, or while the API server can't be reached. Nothing is pushed or
    /// written, and nothing is taken away from sidecars that are connected.
    Unknown,
    /// Ours.
    Held,
    /// Another replica's.
    Other {
        /// Its identity.
        identity: String,
        /// Where its channel is (`https://host:port`), if it says so.
        address: Option<String>,
    },
}

// === impl Timings ===

impl Default for Timings {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

// === impl Claim ===

impl Claim {
    /// Whether this replica may push and write.
    pub fn is_held(&self) -> bool {
        *self == Self::Held
    }
}

/// What the candidate `me` does at `now`, having seen `lease` (`None`: there is no such object).
/// `held` says whether it believes to be the holder.
pub fn decide(lease: Option<&Observed>, me: &str, held: bool, now: Instant) -> Decision {
    let Some(lease) = lease else {
        return Decision::Acquire;
    };
    match lease.holder.as_deref() {
        None | Some("") => Decision::Acquire,
        Some(holder) if holder == me => Decision::Renew,
        Some(_) if held => Decision::Lost,
        Some(_) => {
            let age = now.saturating_duration_since(lease.changed_at);
            match lease.duration.checked_sub(age) {
                Some(left) if !left.is_zero() => Decision::Wait(left),
                _ => Decision::Acquire,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn held_by(holder: &str, changed_at: Instant) -> Observed {
        Observed {
            holder: Some(holder.to_owned()),
            duration: DURATION,
            changed_at,
        }
    }

    #[test]
    fn a_missing_or_vacated_lease_is_taken_at_once() {
        let now = Instant::now();
        assert_eq!(decide(None, "me", false, now), Decision::Acquire);
        let vacated = Observed {
            holder: None,
            ..held_by("", now)
        };
        assert_eq!(decide(Some(&vacated), "me", false, now), Decision::Acquire);
        assert_eq!(
            decide(Some(&held_by("", now)), "me", false, now),
            Decision::Acquire
        );
    }

    #[test]
    fn another_holder_is_left_alone_until_its_record_stood_still_for_the_duration() {
        let start = Instant::now();
        let seen = held_by("other", start);
        let after = |s| decide(Some(&seen), "me", false, start + Duration::from_secs(s));
        assert_eq!(after(0), Decision::Wait(DURATION));
        assert_eq!(after(14), Decision::Wait(Duration::from_secs(1)));
        assert_eq!(after(15), Decision::Acquire);
        assert_eq!(after(16), Decision::Acquire);
    }

    #[test]
    fn a_holder_that_renews_is_never_replaced_however_long_it_holds() {
        let start = Instant::now();
        for round in 0..1_000 {
            let renewed = start + Duration::from_secs(2 * round);
            let seen = held_by("other", renewed);
            let looked_at = renewed + Duration::from_secs(2);
            assert!(matches!(
                decide(Some(&seen), "me", false, looked_at),
                Decision::Wait(_)
            ));
        }
    }

    #[test]
    fn the_holder_renews_even_when_it_lost_track_of_time() {
        let start = Instant::now();
        let seen = held_by("me", start);
        let late = start + Duration::from_secs(3_600);
        assert_eq!(decide(Some(&seen), "me", true, late), Decision::Renew);
        assert_eq!(decide(Some(&seen), "me", false, late), Decision::Renew);
    }

    #[test]
    fn a_holder_that_sees_another_name_has_lost() {
        let now = Instant::now();
        let seen = held_by("other", now);
        assert_eq!(decide(Some(&seen), "me", true, now), Decision::Lost);
        // Even a stale record of the other: first stop, then compete like anybody else.
        let late = now + Duration::from_secs(60);
        assert_eq!(decide(Some(&seen), "me", true, late), Decision::Lost);
    }
}
