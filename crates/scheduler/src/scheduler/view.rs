//! The scheduler's state, for those who look on.

use super::Scheduler;
use crate::{ClassSnapshot, Snapshot};
use std::time::Duration;

impl Scheduler {
    /// The state at this moment.
    pub fn snapshot(&self, now: Duration) -> Snapshot {
        let limits = self.own_limits();
        let mut classes: Vec<_> = self
            .classes
            .iter()
            .map(|class| ClassSnapshot {
                name: class.settings.name.clone(),
                tier: class.settings.tier,
                queued: class.queued,
                queued_tokens: class.queued_tokens,
                in_flight: class.in_flight,
                in_flight_tokens: class.in_flight_ctx,
                served_cost: class.served,
                credit: class.credit,
                bucket: class.bucket.as_ref().map(|b| b.balance(now)),
                active_tenants: class.tenants.active() as u32,
                self_limited: class
                    .tenants
                    .smallest_head()
                    .is_some_and(|ctx| class.self_limited(&limits, ctx, now)),
            })
            .collect();
        classes.sort_by(|a, b| a.name.cmp(&b.name));
        Snapshot {
            in_flight: self.in_flight,
            in_flight_tokens: self.in_flight_ctx,
            seat_cap: self.seats(),
            reserve: self.seats().map_or(0, |seats| self.reserve(seats)),
            token_limit: self.settings.limit.max_tokens,
            queued_bytes: self.queued_bytes,
            served_cost: self.served,
            classes,
        }
    }
}
