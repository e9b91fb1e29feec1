//! The scheduler's state at one moment, for metrics, reports and `/debug/state`.

use crate::Tier;
use std::sync::Arc;

/// The pod at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Requests in the engine.
    pub in_flight: u32,
    /// Context tokens in the engine, by our own count.
    pub in_flight_tokens: u64,
    /// Seats of the engine; `None`: not known, no seat rule binds.
    pub seat_cap: Option<u32>,
    /// Seats that batch work may not take.
    pub reserve: u32,
    /// The token limit in force; `None`: none.
    pub token_limit: Option<u64>,
    /// Bytes of queued bodies.
    pub queued_bytes: u64,
    /// Cost that the pod has served, in cost units, since the scheduler was made.
    pub served_cost: f64,
    /// By class, ordered by name.
    pub classes: Vec<ClassSnapshot>,
}

// === impl Snapshot ===

impl Snapshot {
    /// The pod as a whole, of its ports. Limits add up; a bucket is the same on all of them.
    pub fn together(ports: &[Snapshot]) -> Snapshot {
        let mut ports = ports.iter();
        let mut whole = ports.next().cloned().unwrap_or_default();
        for port in ports {
            whole.in_flight += port.in_flight;
            whole.in_flight_tokens += port.in_flight_tokens;
            whole.seat_cap = whole.seat_cap.zip(port.seat_cap).map(|(a, b)| a + b);
            whole.reserve += port.reserve;
            whole.token_limit = whole.token_limit.zip(port.token_limit).map(|(a, b)| a + b);
            whole.queued_bytes += port.queued_bytes;
            whole.served_cost += port.served_cost;
            for (class, other) in whole.classes.iter_mut().zip(&port.classes) {
                class.queued += other.queued;
                class.queued_tokens += other.queued_tokens;
                class.in_flight += other.in_flight;
                class.in_flight_tokens += other.in_flight_tokens;
                class.served_cost += other.served_cost;
                class.credit += other.credit;
                class.active_tenants = class.active_tenants.max(other.active_tenants);
                class.self_limited |= other.self_limited;
            }
        }
        whole
    }
}

/// One class at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Its tier.
    pub tier: Tier,
    /// Requests waiting.
    pub queued: u32,
    /// Estimated tokens waiting.
    pub queued_tokens: u64,
    /// Requests in the engine.
    pub in_flight: u32,
    /// Context tokens in the engine.
    pub in_flight_tokens: u64,
    /// Cost served since the class exists.
    pub served_cost: f64,
    /// What the class is owed of its minimum share, in cost units; may be negative.
    pub credit: f64,
    /// Units left in the class's bucket, negative while in debt; `None`: no bucket.
    pub bucket: Option<f64>,
    /// Tenants with a queued or running request.
    pub active_tenants: u32,
    /// Whether the class is held back by a limit of its own.
    pub self_limited: bool,
}
