//! Several engine ports in one pod. Limits, seats and shares are each port's own; buckets and the
//! counters of fairness are the pod's.
//!
//! Each port has a scheduler of its own. What one of them takes out of a bucket or charges to a
//! counter it leaves as a [`Charge`], and the owner hands it to the others, which then know the
//! same balances and counters: all decisions are made by one task, one after the other, so no two
//! of them take the same units.

use super::Scheduler;
use crate::bucket::Bucket;
use std::{sync::Arc, time::Duration};

/// What was taken on one port of what the pod's ports share.
#[derive(Clone, Debug, PartialEq)]
pub struct Charge {
    class: Arc<str>,
    tenant: Arc<str>,
    /// Bucket units; negative: given back.
    units: f64,
    /// Cost for the counters; negative: given back.
    cost: f64,
}

// === impl Scheduler ===

impl Scheduler {
    /// This scheduler is one of several ports': it leaves charges for the others from now on.
    pub fn share(&mut self) {
        self.shares = true;
    }

    /// What was charged since the last call; hand it to all other ports.
    pub fn charges(&mut self) -> Vec<Charge> {
        std::mem::take(&mut self.charges)
    }

    /// Takes note of what another port charged.
    pub fn charged_elsewhere(&mut self, charge: &Charge, now: Duration) {
        let Some(&index) = self.by_name.get(&charge.class) else {
            return;
        };
        let most = self.settings.max_tenants;
        let class = &mut self.classes[index];
        if let Some(bucket) = &mut class.bucket {
            bucket.debit(charge.units, now);
        }
        if charge.cost != 0.0 {
            let slot = class.tenants.slot(&charge.tenant, most);
            class.tenants.charge(slot, charge.cost);
            class.counter += charge.cost / f64::from(class.settings.weight);
            let (priority, counter) = (class.settings.priority, class.counter);
            self.last_counter.insert(priority, counter);
        }
    }

    /// Bucket units that the requests of a class which wait here will reserve.
    pub fn queued_reserve(&self, class: &str) -> f64 {
        let index = self.class_index(class);
        let class = &self.classes[index];
        let shared = class.bucket.as_ref().map(Bucket::unit);
        shared.map_or(0.0, |_| class.queued_reserve)
    }

    /// On other ports as much waits for the same bucket.
    pub fn queued_elsewhere(&mut self, class: &str, units: f64) {
        let index = self.class_index(class);
        self.classes[index].reserved_elsewhere = units;
    }

    pub(super) fn leave_charge(&mut self, index: usize, slot: usize, units: f64, cost: f64) {
        if !self.shares || units == 0.0 && cost == 0.0 {
            return;
        }
        let class = &self.classes[index];
        self.charges.push(Charge {
            class: class.settings.name.clone(),
            tenant: class.tenants.name(slot).clone(),
            units,
            cost,
        });
    }
}
