//! The scheduler: events in, decisions out.
//!
//! A request is looked at in the order of the files below this one: [`enqueue`] bounds the queues,
//! [`dispatch`] orders the heads and asks [`admit`] which may start, [`charge`] follows what runs.
//!
//! Everything that happens is an `&mut self` call by the one owner; there is no lock, and each
//! request is in exactly one of three states: queued, running, forgotten.

mod admit;
mod apply;
mod aside;
mod charge;
mod dispatch;
mod enqueue;
mod peers;
mod view;

use crate::{
    Decision, EngineFacts, RequestId, Settings, class::Class, decayed::Decayed, headroom::Headroom,
    id_hash::IdMap, outputs::Outputs, tenants::Slot,
};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

pub use peers::Charge;

/// Orders and limits the requests of one engine port.
#[derive(Debug)]
pub struct Scheduler {
    settings: Settings,
    engine: EngineFacts,
    classes: Vec<Class>,
    by_name: HashMap<Arc<str>, usize>,
    requests: IdMap<RequestId, Entry>,
    /// Running requests whose tokens aren't seen, and are accrued by time.
    unseen: Vec<RequestId>,
    /// Decisions that fell out of an event and wait to be polled.
    pending: VecDeque<Decision>,
    in_flight: u32,
    in_flight_ctx: u64,
    batch_in_flight: u32,
    queued_bytes: u64,
    served: f64,
    /// Cost served a second.
    service: Decayed,
    headroom: Headroom,
    /// By priority: the counter of the class that was last served.
    last_counter: BTreeMap<i32, f64>,
    next_seq: u64,
    looked_at: Duration,
    accrued_at: Duration,
    draining: bool,
    held: bool,
    /// Milliseconds that the last requests were in the engine.
    stays: Outputs,
    /// Whether there are other ports, for which charges are left.
    shares: bool,
    charges: Vec<Charge>,
}

/// A request that is queued or running.
#[derive(Debug)]
struct Entry {
    class: usize,
    slot: Slot,
    arrival: Duration,
    seq: u64,
    prompt_tokens: u64,
    output_cap: Option<u64>,
    streamed: bool,
    body_bytes: u64,
    /// Estimated output, for the queue's token bound and the bucket's reserve.
    output_estimate: u64,
    /// Context tokens that it takes, or will.
    ctx: u64,
    /// How many requests behind it were started while it did not fit.
    passed: u32,
    running: Option<Running>,
}

/// What is known and was charged of a running request.
#[derive(Clone, Copy, Debug)]
struct Running {
    started: Duration,
    /// Whether it was started by the rules, and so is charged for.
    bound: bool,
    /// Bucket units debited.
    reserved: f64,
    /// Cost that the class's credit was charged with at the start.
    credit_estimate: f64,
    /// Cost charged to the counters of class and tenant.
    charged: f64,
    /// Cost counted as served.
    served: f64,
    prompt: u64,
    cached: u64,
    output: u64,
}

// === impl Entry ===

impl Entry {
    /// Estimated tokens, prompt and output.
    fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.output_estimate)
    }
}

// === impl Scheduler ===

impl Scheduler {
    /// An empty pod under a policy.
    pub fn new(settings: Settings, now: Duration) -> Self {
        let mut scheduler = Self {
            settings: settings.clone(),
            engine: EngineFacts::default(),
            classes: Vec::new(),
            by_name: HashMap::new(),
            requests: IdMap::default(),
            unseen: Vec::new(),
            pending: VecDeque::new(),
            in_flight: 0,
            in_flight_ctx: 0,
            batch_in_flight: 0,
            queued_bytes: 0,
            served: 0.0,
            service: Decayed::new(Duration::from_secs(10), now),
            headroom: Headroom::new(now),
            last_counter: BTreeMap::new(),
            next_seq: 0,
            looked_at: now,
            accrued_at: now,
            draining: false,
            held: false,
            stays: Outputs::default(),
            shares: false,
            charges: Vec::new(),
        };
        scheduler.apply(settings, now);
        scheduler
    }

    /// Takes note of what is known of the engine.
    pub fn set_engine(&mut self, facts: EngineFacts, now: Duration) {
        self.engine = facts;
        self.observe_headroom(now);
    }

    /// What was seen of the wish for interactive seats doesn't count: requests went past the
    /// scheduler for a while, so that none were wanted of it. It starts anew at a quarter.
    pub fn restart_headroom(&mut self, now: Duration) {
        self.headroom = Headroom::new(now);
        self.observe_headroom(now);
    }

    /// From now on new requests are refused with `draining`; what is queued is still served.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Seats in the engine, by the best that is known; `None`: no seat rule binds.
    fn seats(&self) -> Option<u32> {
        self.settings
            .seat_cap
            .or(self.settings.limit.max_requests)
            .or(self.engine.seats)
    }

    /// Seats that batch work may not take. None while no class could want them.
    fn reserve(&self, seats: u32) -> u32 {
        let floor = self.settings.reserved_seats;
        if self.classes.iter().any(Class::interactive) {
            self.headroom.reserve(seats, floor)
        } else {
            floor.min(seats)
        }
    }

    fn observe_headroom(&mut self, now: Duration) {
        let wanted = self.classes.iter().filter(|c| c.interactive()).map(|c| {
            let most = c.settings.max_in_flight.unwrap_or(u32::MAX);
            c.in_flight + c.queued.min(most.saturating_sub(c.in_flight))
        });
        let wanted = wanted.sum();
        self.headroom.observe(wanted, self.seats(), now);
    }
}
