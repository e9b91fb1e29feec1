//! A token bucket that is debited at the start and trued up at the end, so its balance may be
//! negative: a long answer delays the next requests in the place of being cut.

use crate::{BucketSettings, BucketUnit};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    settings: BucketSettings,
    balance: f64,
    at: Duration,
}

/// Units that a request of this many tokens takes of a bucket of this unit, if there is one.
pub(crate) fn reserve_of(unit: Option<BucketUnit>, tokens: u64) -> f64 {
    match unit {
        None => 0.0,
        Some(BucketUnit::Requests) => 1.0,
        Some(BucketUnit::Tokens) => tokens as f64,
    }
}

// === impl Bucket ===

impl Bucket {
    pub(crate) fn new(settings: BucketSettings, now: Duration) -> Self {
        Self {
            settings,
            balance: settings.burst,
            at: now,
        }
    }

    /// Other settings; what was used up stays used up.
    pub(crate) fn apply(&mut self, settings: BucketSettings, now: Duration) {
        let used = self.settings.burst - self.balance(now);
        let same_unit = self.settings.unit == settings.unit;
        self.settings = settings;
        self.balance = settings.burst - if same_unit { used } else { 0.0 };
        self.at = now;
    }

    pub(crate) fn unit(&self) -> BucketUnit {
        self.settings.unit
    }

    /// What a full bucket holds.
    pub(crate) fn burst(&self) -> f64 {
        self.settings.burst
    }

    pub(crate) fn balance(&self, now: Duration) -> f64 {
        let flown_in = now.saturating_sub(self.at).as_secs_f64() * self.settings.rate;
        (self.balance + flown_in).min(self.settings.burst)
    }

    /// Whether a request may start: there is a whole request, or any token at all, since what an
    /// answer will take isn't known.
    pub(crate) fn ready(&self, now: Duration) -> bool {
        let balance = self.balance(now);
        match self.settings.unit {
            // A billionth forgives the rounding of repeated refills.
            BucketUnit::Requests => balance >= 1.0 - 1e-9,
            BucketUnit::Tokens => balance > 0.0,
        }
    }

    /// How long until a request may start behind others that will debit `ahead` units.
    pub(crate) fn wait(&self, ahead: f64, now: Duration) -> Duration {
        let least = match self.settings.unit {
            BucketUnit::Requests => 1.0,
            BucketUnit::Tokens => 0.0,
        };
        let missing = ahead + least - self.balance(now);
        if missing < 0.0 || ahead == 0.0 && self.ready(now) {
            return Duration::ZERO;
        }
        // A microsecond more, so that the balance is there when the time is.
        Duration::try_from_secs_f64(missing / self.settings.rate)
            .unwrap_or(Duration::MAX / 4)
            .saturating_add(Duration::from_micros(1))
    }

    /// Takes `amount`, or gives it back where it is negative.
    pub(crate) fn debit(&mut self, amount: f64, now: Duration) {
        self.balance = (self.balance(now) - amount).min(self.settings.burst);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn bucket(unit: BucketUnit) -> Bucket {
        let settings = BucketSettings {
            rate: 2.0,
            burst: 10.0,
            unit,
        };
        Bucket::new(settings, Duration::ZERO)
    }

    #[test]
    fn burst_is_held_and_never_more() {
        let bucket = bucket(BucketUnit::Requests);
        assert_eq!(bucket.balance(seconds(100)), 10.0);
    }

    #[test]
    fn tokens_may_go_into_debt_and_wait_it_out() {
        let mut bucket = bucket(BucketUnit::Tokens);
        bucket.debit(16.0, Duration::ZERO);
        assert!(!bucket.ready(seconds(3)));
        let wait = bucket.wait(0.0, Duration::ZERO);
        assert!(bucket.ready(wait), "{wait:?}");
        assert!(wait < seconds(3) + Duration::from_millis(1), "{wait:?}");
    }

    #[test]
    fn a_request_bucket_waits_for_a_whole_request() {
        let mut bucket = bucket(BucketUnit::Requests);
        for _ in 0..10 {
            assert!(bucket.ready(Duration::ZERO));
            bucket.debit(1.0, Duration::ZERO);
        }
        assert!(!bucket.ready(Duration::from_millis(499)));
        assert!(bucket.ready(Duration::from_millis(500)));
    }

    #[test]
    fn an_edit_keeps_what_was_used_up() {
        let mut bucket = bucket(BucketUnit::Tokens);
        bucket.debit(8.0, Duration::ZERO);
        let wider = BucketSettings {
            rate: 2.0,
            burst: 20.0,
            unit: BucketUnit::Tokens,
        };
        bucket.apply(wider, Duration::ZERO);
        assert_eq!(bucket.balance(Duration::ZERO), 12.0);
    }

    #[test]
    fn wait_counts_those_ahead() {
        let mut bucket = bucket(BucketUnit::Tokens);
        bucket.debit(10.0, Duration::ZERO);
        let wait = bucket.wait(20.0, Duration::ZERO);
        assert!(wait >= seconds(10) && wait < seconds(11), "{wait:?}");
    }
}
