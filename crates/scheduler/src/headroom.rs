//! The seats that are kept free of batch work, so that an interactive request needn't wait for a
//! batch request to end: as many as interactive traffic has wanted of late, mean plus one standard
//! deviation.
//!
//! A fixed number wastes seats or misses them; ordering alone leaves the time to first token at
//! the residence of a batch request, since the engine doesn't give up a seat once taken.

use crate::decayed::Decayed;
use std::time::Duration;

/// The shortest span over which the wish for seats is averaged.
const LEAST_SPAN: Duration = Duration::from_secs(5);
/// How many batch requests the mean residence looks back upon, as a fading sum.
const RESIDENCE_SPAN: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub(crate) struct Headroom {
    wanted: f64,
    mean: f64,
    mean_square: f64,
    /// Whether the mean has its first value, which needs the seats to be known.
    begun: bool,
    residence: Decayed,
    at: Duration,
}

// === impl Headroom ===

impl Headroom {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            wanted: 0.0,
            mean: 0.0,
            mean_square: 0.0,
            begun: false,
            residence: Decayed::new(RESIDENCE_SPAN, now),
            at: now,
        }
    }

    /// Interactive traffic wants this many seats from now on.
    pub(crate) fn observe(&mut self, wanted: u32, seats: Option<u32>, now: Duration) {
        if let (false, Some(seats)) = (self.begun, seats) {
            // Until there is experience: a quarter of the seats.
            self.mean = f64::from(seats) / 4.0;
            self.mean_square = self.mean * self.mean;
            self.begun = true;
            self.at = now;
        }
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        if elapsed > 0.0 {
            let gain = 1.0 - (-elapsed / self.span().as_secs_f64()).exp();
            self.mean += gain * (self.wanted - self.mean);
            self.mean_square += gain * (self.wanted * self.wanted - self.mean_square);
            self.at = now;
        }
        self.wanted = wanted.into();
    }

    /// A batch request left the engine after this long.
    pub(crate) fn batch_ended(&mut self, residence: Duration, now: Duration) {
        self.residence.add(residence.as_secs_f64(), 1.0, now);
    }

    fn span(&self) -> Duration {
        let mean = self.residence.ratio(1e-3).unwrap_or(0.0);
        LEAST_SPAN.max(Duration::from_secs_f64(mean.clamp(0.0, 3600.0)))
    }

    /// Seats to keep free of batch work, out of `seats`, and at least `floor`.
    pub(crate) fn reserve(&self, seats: u32, floor: u32) -> u32 {
        let deviation = (self.mean_square - self.mean * self.mean).max(0.0).sqrt();
        // A millionth, or the tail of an average that has settled would round up for ever.
        let wish = (self.mean + deviation - 1e-6).ceil().max(0.0) as u32;
        wish.clamp(1, (seats / 2).max(1)).max(floor).min(seats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn starts_at_a_quarter_of_the_seats() {
        let mut headroom = Headroom::new(at(0));
        headroom.observe(0, Some(64), at(0));
        assert_eq!(headroom.reserve(64, 0), 16);
    }

    #[test]
    fn idle_interactive_leaves_one_seat() {
        let mut headroom = Headroom::new(at(0));
        headroom.observe(0, Some(64), at(0));
        headroom.observe(0, Some(64), at(120));
        assert_eq!(headroom.reserve(64, 0), 1);
    }

    #[test]
    fn steady_wish_is_kept_and_half_the_seats_is_the_most() {
        let mut headroom = Headroom::new(at(0));
        headroom.observe(12, Some(64), at(0));
        headroom.observe(12, Some(64), at(300));
        assert_eq!(headroom.reserve(64, 0), 12);
        headroom.observe(60, Some(64), at(300));
        headroom.observe(60, Some(64), at(900));
        assert_eq!(headroom.reserve(64, 0), 32);
    }

    #[test]
    fn bursts_keep_more_than_their_mean() {
        let mut headroom = Headroom::new(at(0));
        for second in 0..200 {
            headroom.observe(if second % 10 == 0 { 20 } else { 2 }, Some(64), at(second));
        }
        let reserve = headroom.reserve(64, 0);
        assert!((6..=16).contains(&reserve), "{reserve}");
    }

    #[test]
    fn the_users_floor_holds() {
        let mut headroom = Headroom::new(at(0));
        headroom.observe(0, Some(8), at(0));
        headroom.observe(0, Some(8), at(600));
        assert_eq!(headroom.reserve(8, 6), 6);
    }

    #[test]
    fn long_batch_residence_lengthens_the_memory() {
        let mut headroom = Headroom::new(at(0));
        headroom.batch_ended(at(100), at(0));
        headroom.observe(10, Some(64), at(0));
        headroom.observe(0, Some(64), at(500));
        headroom.observe(0, Some(64), at(520));
        assert!(headroom.reserve(64, 0) >= 8, "ten was wanted 20 s ago");
    }
}
