//! When the next authority is made, and when it takes over: pure, by [`decide`].
//!
//! Each step is one write, and what is to be done next follows from what is stored alone. So it
//! doesn't matter where a process ends, or which replica goes on. The wall clock may jump: ends
//! and beginnings are compared with it anew each time, and nothing is ever slept for.

use super::{Authorities, Life};
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long things last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// Life of an authority. A pod whose node is started anew trusts only those that it was created
    /// with, so that this is longer than most pods live.
    pub authority: Duration,
    /// The next one is made when no more than this is left.
    pub ahead: Duration,
    /// The next one isn't used before it is this old, unless somebody asked for it: time for
    /// sidecars that are cut off at the moment.
    pub least: Duration,
    /// Sidecars that don't say to trust the next one aren't waited for longer than this.
    pub most: Duration,
    /// From the write of `caBundle` until every API server goes by it; and from the beginning of
    /// a lease until sidecars have found its holder.
    pub spread: Duration,
    /// Life of a server certificate. It is renewed after two thirds of it.
    pub leaf: Duration,
    /// Between two looks at the Secret and the clock.
    pub every: Duration,
}

/// What an API server and the sidecars say of the next authority.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The time.
    pub now: SystemTime,
    /// Somebody wants the next one now.
    pub asked: bool,
    /// For how long this replica, while it held the lease, has seen that API servers are told to
    /// trust the next one; `None`: they aren't.
    pub told_for: Option<Duration>,
    /// Every connected sidecar says to trust it.
    pub confirmed: bool,
}

/// What is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Wait,
    /// A new next authority.
    Prepare,
    /// The next authority is the current one, which becomes the previous one.
    Promote,
    /// There is no previous one any more.
    Retire,
}

/// The ends of all authorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    /// Of the one that signs.
    pub current: Life,
    /// Of the one that will.
    pub next: Option<Life>,
    /// Of the one that did.
    pub previous: Option<Life>,
}

/// What the holder of the lease does next.
pub fn decide(lives: &Lives, facts: &Facts, timings: &Timings) -> Step {
    let now = facts.now;
    let usable = lives.current.holds(now);
    match &lives.next {
        // Made by a clock that was wrong, or left lying for years.
        Some(next) if !next.holds(now) => return Step::Prepare,
        Some(next) => {
            let age = next.age(now);
            let told = facts.told_for.is_some_and(|time| time >= timings.spread);
            let known = facts.confirmed && (facts.asked || age >= timings.least);
            if told && (known || !usable || age >= timings.most) {
                return Step::Promote;
            }
        }
        None if facts.asked || !usable || lives.current.left(now) <= timings.ahead => {
            return Step::Prepare;
        }
        None => {}
    }
    match lives.previous {
        Some(previous) if !previous.holds(now) => Step::Retire,
        _ => Step::Wait,
    }
}

// === impl Timings ===

impl Default for Timings {
    fn default() -> Self {
        Self {
            authority: DAY * 3 * 365,
            ahead: DAY * 180,
            least: DAY,
            most: DAY * 30,
            spread: Duration::from_secs(60),
            leaf: DAY * 30,
            every: Duration::from_secs(10),
        }
    }
}

// === impl Lives ===

impl Lives {
    /// Of these.
    pub fn of(authorities: &Authorities) -> Self {
        Self {
            current: authorities.current.life(),
            next: authorities.next.as_ref().map(|next| next.life()),
            previous: authorities.previous.as_ref().map(|cert| cert.life),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMINGS: Timings = Timings {
        authority: DAY.saturating_mul(1_000),
        ahead: DAY.saturating_mul(180),
        least: DAY,
        most: DAY.saturating_mul(30),
        spread: Duration::from_secs(60),
        leaf: DAY.saturating_mul(30),
        every: Duration::from_secs(10),
    };

    /// A cluster as the rules see it: what is stored, the time, and whether sidecars answer.
    struct Play {
        lives: Lives,
        now: SystemTime,
        told: Option<SystemTime>,
        confirmed: bool,
        asked: bool,
    }

    impl Play {
        fn new() -> Self {
            let now = SystemTime::UNIX_EPOCH + DAY * 20_000;
            Self {
                lives: Lives {
                    current: Life::starting(now, TIMINGS.authority),
                    next: None,
                    previous: None,
                },
                now,
                told: None,
                confirmed: true,
                asked: false,
            }
        }

        fn decide(&self) -> Step {
            let facts = Facts {
                now: self.now,
                asked: self.asked,
                told_for: self
                    .told
                    .and_then(|told| self.now.duration_since(told).ok()),
                confirmed: self.confirmed,
            };
            decide(&self.lives, &facts, &TIMINGS)
        }

        /// One look, and the write that follows from it.
        fn step(&mut self) -> Step {
            let step = self.decide();
            match step {
                Step::Wait => {}
                Step::Prepare => {
                    self.lives.next = Some(Life::starting(self.now, TIMINGS.authority));
                    // The bundle is written right after it.
                    self.told = Some(self.now);
                }
                Step::Promote => {
                    self.lives.previous = Some(self.lives.current);
                    self.lives.current = self.lives.next.take().expect("a next one");
                    self.asked = false;
                }
                Step::Retire => self.lives.previous = None,
            }
            step
        }

        /// Goes on by `time`, with a look every hour; the steps that were taken.
        fn pass(&mut self, time: Duration) -> Vec<Step> {
            let end = self.now + time;
            let mut steps = Vec::new();
            while self.now < end {
                self.now += Duration::from_secs(3_600);
                steps.extend(Some(self.step()).filter(|step| *step != Step::Wait));
            }
            steps
        }
    }

    #[test]
    fn in_ten_years_there_is_always_one_that_holds_and_was_known_for_a_day() {
        let mut play = Play::new();
        let mut known_since = play.now;
        for _ in 0..24 * 3_650 {
            play.now += Duration::from_secs(3_600);
            match play.step() {
                Step::Prepare => known_since = play.now,
                Step::Promote => assert!(play.now >= known_since + DAY),
                Step::Wait | Step::Retire => {}
            }
            assert!(
                play.lives.current.left(play.now) > DAY * 150,
                "{:?}",
                play.now
            );
            if let Some(previous) = play.lives.previous {
                assert!(
                    previous.holds(play.now - DAY),
                    "trusted for long enough only"
                );
            }
        }
        assert!(play.lives.current.made() > known_since - DAY * 2);
    }

    #[test]
    fn sidecars_that_say_nothing_are_waited_for_but_not_for_ever() {
        let mut play = Play::new();
        play.now += TIMINGS.authority - TIMINGS.ahead;
        assert_eq!(play.step(), Step::Prepare);
        play.confirmed = false;
        assert_eq!(play.pass(TIMINGS.most - Duration::from_secs(7_200)), []);
        assert_eq!(play.pass(Duration::from_secs(7_200)), [Step::Promote]);
    }

    #[test]
    fn an_authority_that_api_servers_were_not_told_of_is_never_used() {
        let mut play = Play::new();
        play.now += TIMINGS.authority + DAY;
        assert_eq!(play.step(), Step::Prepare);
        play.told = None;
        assert_eq!(play.pass(DAY * 60), []);
        play.told = Some(play.now);
        assert_eq!(play.step(), Step::Wait, "they take a moment");
        assert_eq!(play.pass(Duration::from_secs(3_600)), [Step::Promote]);
    }

    #[test]
    fn one_that_is_asked_for_comes_at_once_and_waits_for_the_sidecars_alone() {
        let mut play = Play::new();
        play.asked = true;
        assert_eq!(play.step(), Step::Prepare);
        play.confirmed = false;
        assert_eq!(play.pass(Duration::from_secs(7_200)), []);
        play.confirmed = true;
        assert_eq!(play.step(), Step::Promote);
        assert_eq!(play.step(), Step::Wait);
    }

    #[test]
    fn a_clock_that_jumps_ends_with_an_authority_that_holds() {
        // From each state, forwards and back, by 400 days: with steps that take a minute.
        let minute = Duration::from_secs(60);
        for at in 0..1_200 {
            for forwards in [true, false] {
                let mut play = Play::new();
                play.pass(DAY * at);
                match forwards {
                    true => play.now += DAY * 400,
                    false => play.now -= DAY * 400,
                }
                play.told = play.told.map(|_| play.now);
                for _ in 0..5 {
                    play.now += minute;
                    play.step();
                }
                let current = play.lives.current;
                assert!(
                    current.holds(play.now),
                    "day {at}, forwards {forwards}: {current:?}"
                );
            }
        }
    }

    #[test]
    fn one_that_is_over_at_the_start_is_replaced_as_soon_as_the_next_one_is_known() {
        let mut play = Play::new();
        play.confirmed = false;
        play.now += TIMINGS.authority + DAY;
        assert_eq!(play.step(), Step::Prepare);
        assert_eq!(play.step(), Step::Wait);
        play.now += TIMINGS.spread;
        assert_eq!(play.step(), Step::Promote);
        assert_eq!(play.step(), Step::Retire);
        assert_eq!(play.step(), Step::Wait);
    }
}
