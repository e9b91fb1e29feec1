//! One traffic class: its queue, its limits, what it was served and what it is owed.

use crate::{
    ClassSettings, RequestId, Tier,
    bucket::{Bucket, reserve_of},
    decayed::Decayed,
    outputs::Outputs,
    tenants::Tenants,
};
use std::{collections::VecDeque, time::Duration};

/// Over this span starts and refusals are remembered.
const SPAN: Duration = Duration::from_secs(30);
/// A class whose refusals are judged must have had this many requests in the span.
const STORM_LEAST: f64 = 10.0;
/// Default bound of an interactive queue, in requests: a 10 s wait at 100 requests a second.
const INTERACTIVE_QUEUE: u32 = 1000;
/// Default bound of a batch queue while it isn't known what the pod drains in 30 s.
const BATCH_QUEUE_LEAST: u32 = 64;

#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) settings: ClassSettings,
    pub(crate) tenants: Tenants,
    /// Arrival order, for the TTL. Entries of requests that are gone are dropped when they come
    /// to the front.
    pub(crate) arrivals: VecDeque<(Duration, RequestId)>,
    pub(crate) queued: u32,
    pub(crate) queued_tokens: u64,
    pub(crate) queued_bytes: u64,
    /// Bucket units that the queued requests will reserve.
    pub(crate) queued_reserve: f64,
    /// Bucket units that queued requests on the pod's other ports will reserve.
    pub(crate) reserved_elsewhere: f64,
    pub(crate) in_flight: u32,
    pub(crate) in_flight_ctx: u64,
    pub(crate) bucket: Option<Bucket>,
    /// Cost charged, over weight.
    pub(crate) counter: f64,
    /// Backlogged and not self-limited, as of the last look.
    pub(crate) eligible: bool,
    /// What is owed of the minimum share, in cost.
    pub(crate) credit: f64,
    pub(crate) served: f64,
    pub(crate) last_start: Duration,
    pub(crate) outputs: Outputs,
    /// Output tokens a second of one request, over its whole stay.
    pub(crate) speed: Decayed,
    offers: Decayed,
    starts: Decayed,
}

// === impl Class ===

impl Class {
    pub(crate) fn new(settings: ClassSettings, now: Duration) -> Self {
        Self {
            bucket: settings.bucket.map(|b| Bucket::new(b, now)),
            settings,
            tenants: Tenants::default(),
            arrivals: VecDeque::new(),
            queued: 0,
            queued_tokens: 0,
            queued_bytes: 0,
            queued_reserve: 0.0,
            reserved_elsewhere: 0.0,
            in_flight: 0,
            in_flight_ctx: 0,
            counter: 0.0,
            eligible: false,
            credit: 0.0,
            served: 0.0,
            last_start: now,
            outputs: Outputs::default(),
            speed: Decayed::new(Duration::from_secs(120), now),
            offers: Decayed::new(SPAN, now),
            starts: Decayed::new(SPAN, now),
        }
    }

    pub(crate) fn apply(&mut self, settings: ClassSettings, now: Duration) {
        self.bucket = match (self.bucket.take(), settings.bucket) {
            (Some(mut bucket), Some(new)) => {
                bucket.apply(new, now);
                Some(bucket)
            }
            (_, new) => new.map(|b| Bucket::new(b, now)),
        };
        self.settings = settings;
    }

    pub(crate) fn interactive(&self) -> bool {
        self.settings.tier == Tier::Interactive
    }

    /// Bucket units that a request of this many tokens reserves.
    pub(crate) fn reserve(&self, tokens: u64) -> f64 {
        reserve_of(self.bucket.as_ref().map(Bucket::unit), tokens)
    }

    /// Whether a limit of its own stops the class: `ctx` is the size of its smallest head.
    pub(crate) fn self_limited(&self, limits: &OwnLimits, ctx: u64, now: Duration) -> bool {
        self.bucket.as_ref().is_some_and(|b| !b.ready(now))
            || self
                .settings
                .max_in_flight
                .is_some_and(|most| self.in_flight >= most)
            || !self.fits_share(limits, ctx)
    }

    /// Whether `maxShare` allows one more request of this size. One is always allowed.
    pub(crate) fn fits_share(&self, limits: &OwnLimits, ctx: u64) -> bool {
        let Some(percent) = self.settings.max_share else {
            return true;
        };
        let part = |whole: u64| whole.saturating_mul(percent.into()) / 100;
        let tokens = limits
            .tokens
            .is_none_or(|l| self.in_flight_ctx + ctx <= part(l));
        let seats = limits
            .requests
            .is_none_or(|l| u64::from(self.in_flight) < part(l.into()));
        self.in_flight == 0 || (tokens && seats)
    }

    /// Whether a start is due by `atLeastEvery`, and since when.
    pub(crate) fn start_due(&self, now: Duration) -> Option<Duration> {
        let due = self.last_start + self.settings.at_least_every?;
        (self.in_flight == 0 && now >= due).then_some(due)
    }

    /// The bound on queued requests in force.
    pub(crate) fn queue_bound(&self, seats: Option<u32>) -> u32 {
        if let Some(most) = self.settings.queue.max_requests {
            return most;
        }
        if self.interactive() {
            return INTERACTIVE_QUEUE;
        }
        let least = BATCH_QUEUE_LEAST.max(seats.unwrap_or(0).saturating_mul(2));
        let drained = self.drain_rate().unwrap_or(0.0) * 30.0;
        least.max(drained.ceil().clamp(0.0, 1e6) as u32)
    }

    /// Requests a second that the pod takes while the class has work that only the pod holds up.
    pub(crate) fn drain_rate(&self) -> Option<f64> {
        self.starts.ratio(1.0).filter(|rate| *rate > 0.0)
    }

    pub(crate) fn note_eligible(&mut self, spent: Duration, now: Duration) {
        self.starts.add(0.0, spent.as_secs_f64(), now);
    }

    pub(crate) fn note_start(&mut self, now: Duration) {
        self.starts.add(1.0, 0.0, now);
        self.last_start = now;
    }

    pub(crate) fn note_offer(&mut self, refused: bool, now: Duration) {
        self.offers.add(f64::from(u8::from(refused)), 1.0, now);
    }

    /// A request that had been queued was refused after all.
    pub(crate) fn note_late_refusal(&mut self, now: Duration) {
        self.offers.add(1.0, 0.0, now);
    }

    /// Whether over half of the class's requests are refused of late.
    pub(crate) fn storm(&self, now: Duration) -> bool {
        self.offers.weight(now) >= STORM_LEAST && self.offers.ratio(1e-9).is_some_and(|r| r > 0.5)
    }

    /// Output tokens a second of one running request, where that can't be seen.
    pub(crate) fn usual_speed(&self) -> f64 {
        // 20 a second is a slow reader's pace and a loaded engine's.
        self.speed.ratio(1e-3).unwrap_or(20.0)
    }

    /// Forgets arrival entries that no longer wait.
    pub(crate) fn trim_arrivals(&mut self, waits: impl Fn(RequestId) -> bool) {
        while self.arrivals.front().is_some_and(|&(_, id)| !waits(id)) {
            self.arrivals.pop_front();
        }
        if self.arrivals.len() > 2 * self.queued as usize + 64 {
            self.arrivals.retain(|&(_, id)| waits(id));
        }
    }
}

/// What `maxShare` is a share of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnLimits {
    pub(crate) tokens: Option<u64>,
    pub(crate) requests: Option<u32>,
}
