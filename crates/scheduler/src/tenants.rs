//! The tenants of one class: a FIFO and a counter each, and the order in which their heads are
//! looked at.
//!
//! The counter is charged with the cost of what the tenant is served, as it streams, so that long
//! answers weigh what they weigh (counting requests, or prompts only, gave a tenant with long
//! answers 80 % of the service in simulation). A tenant that comes back from idleness starts level
//! with the least of those that wait: idle time is never paid back.

use crate::{RequestId, outputs::Outputs};
use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

/// The queue that tenants beyond the cap share.
const SHARED: &str = "_shared";

/// Names a tenant within its class.
pub(crate) type Slot = usize;

#[derive(Debug)]
pub(crate) struct Tenant {
    name: Arc<str>,
    counter: f64,
    queue: VecDeque<Waiting>,
    /// Bucket units that its queued requests will reserve.
    queued_reserve: f64,
    pub(crate) in_flight: u32,
    pub(crate) outputs: Outputs,
}

/// A queued request, as its tenant's queue knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) id: RequestId,
    /// Arrival order over the whole pod.
    pub(crate) seq: u64,
    /// Context tokens that it will take.
    pub(crate) ctx: u64,
    /// Bucket units that it will reserve.
    pub(crate) reserve: f64,
}

/// Where a tenant with a queue stands: by counter, then by the age of its head.
#[derive(Clone, Copy, Debug)]
struct Place {
    counter: f64,
    seq: u64,
    slot: Slot,
}

#[derive(Debug, Default)]
pub(crate) struct Tenants {
    slots: Vec<Tenant>,
    free: Vec<Slot>,
    by_name: HashMap<Arc<str>, Slot>,
    order: BTreeSet<Place>,
    /// Sizes of the heads, so that "none fits" is known without looking at each.
    sizes: BTreeSet<(u64, Slot)>,
    last_counter: f64,
}

// === impl Place ===

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.counter
            .total_cmp(&other.counter)
            .then(self.seq.cmp(&other.seq))
            .then(self.slot.cmp(&other.slot))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Place {}

// === impl Tenant ===

impl Tenant {
    fn idle(&self) -> bool {
        self.queue.is_empty() && self.in_flight == 0
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    fn place(&self, slot: Slot) -> Option<(Place, (u64, Slot))> {
        let head = self.queue.front()?;
        let place = Place {
            counter: self.counter,
            seq: head.seq,
            slot,
        };
        Some((place, (head.ctx, slot)))
    }
}

// === impl Tenants ===

impl Tenants {
    pub(crate) fn get(&self, slot: Slot) -> &Tenant {
        &self.slots[slot]
    }

    /// The tenant of a name, made if it is new; beyond `most` the shared one.
    pub(crate) fn slot(&mut self, name: &Arc<str>, most: usize) -> Slot {
        if let Some(&slot) = self.by_name.get(name) {
            return slot;
        }
        let shared = self.by_name.get(SHARED).copied();
        // While the shared queue holds anything, it may hold something of this tenant's, which
        // must not be overtaken.
        if let Some(slot) = shared.filter(|&slot| self.slots[slot].queued() > 0) {
            return slot;
        }
        let own = self.by_name.len() - usize::from(shared.is_some());
        if own >= most && !self.forget_one() {
            return shared.unwrap_or_else(|| self.insert(SHARED.into()));
        }
        self.insert(name.clone())
    }

    fn insert(&mut self, name: Arc<str>) -> Slot {
        let tenant = Tenant {
            name: name.clone(),
            counter: 0.0,
            queue: VecDeque::new(),
            queued_reserve: 0.0,
            in_flight: 0,
            outputs: Outputs::default(),
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = tenant;
                slot
            }
            None => {
                self.slots.push(tenant);
                self.slots.len() - 1
            }
        };
        self.by_name.insert(name, slot);
        slot
    }

    /// Makes room by forgetting the idle tenant with the least counter: it loses least, since it
    /// would be lifted on its return. One that waits or runs is never forgotten.
    fn forget_one(&mut self) -> bool {
        let idle = self.by_name.values().copied().filter(|&slot| {
            let tenant = &self.slots[slot];
            tenant.idle() && &*tenant.name != SHARED
        });
        let least = idle.min_by(|&a, &b| self.slots[a].counter.total_cmp(&self.slots[b].counter));
        let Some(slot) = least else {
            return false;
        };
        self.by_name.remove(&self.slots[slot].name);
        self.free.push(slot);
        true
    }

    /// Queues a request by arrival order (at the end, but for one that another class hands over).
    pub(crate) fn push(&mut self, slot: Slot, waiting: Waiting) {
        if self.slots[slot].queue.is_empty() {
            // Lift: level with the least of those that wait, else with the last served.
            let least = self.order.first().map_or(self.last_counter, |p| p.counter);
            let tenant = &mut self.slots[slot];
            tenant.counter = tenant.counter.max(least);
        }
        self.reposition(slot, |tenant| {
            let behind = tenant
                .queue
                .iter()
                .rev()
                .take_while(|w| w.seq > waiting.seq);
            let at = tenant.queue.len() - behind.count();
            tenant.queue.insert(at, waiting);
            tenant.queued_reserve += waiting.reserve;
        });
    }

    /// Takes a request out of its queue.
    pub(crate) fn remove(&mut self, slot: Slot, id: RequestId) -> Option<Waiting> {
        self.reposition(slot, |tenant| {
            let at = tenant.queue.iter().position(|w| w.id == id)?;
            let waiting = tenant.queue.remove(at)?;
            tenant.queued_reserve -= waiting.reserve;
            if tenant.queue.is_empty() {
                tenant.queued_reserve = 0.0; // the sum's rounding ends with the queue
            }
            Some(waiting)
        })
    }

    /// The tenant's head was chosen: those who come back later start level with it.
    pub(crate) fn note_start(&mut self, slot: Slot) {
        self.last_counter = self.slots[slot].counter;
        self.slots[slot].in_flight += 1;
    }

    pub(crate) fn note_running(&mut self, slot: Slot) {
        self.slots[slot].in_flight += 1;
    }

    pub(crate) fn note_end(&mut self, slot: Slot) {
        let tenant = &mut self.slots[slot];
        tenant.in_flight = tenant.in_flight.saturating_sub(1);
    }

    /// Charges cost, or refunds it where it is negative.
    pub(crate) fn charge(&mut self, slot: Slot, cost: f64) {
        self.reposition(slot, |tenant| tenant.counter += cost);
    }

    pub(crate) fn record_output(&mut self, slot: Slot, tokens: u64) {
        self.slots[slot].outputs.record(tokens);
    }

    fn reposition<T>(&mut self, slot: Slot, change: impl FnOnce(&mut Tenant) -> T) -> T {
        let tenant = &mut self.slots[slot];
        if let Some((place, size)) = tenant.place(slot) {
            self.order.remove(&place);
            self.sizes.remove(&size);
        }
        let result = change(tenant);
        if let Some((place, size)) = tenant.place(slot) {
            self.order.insert(place);
            self.sizes.insert(size);
        }
        result
    }

    /// The heads, in the order in which they are to start.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (Slot, Waiting)> + '_ {
        self.order
            .iter()
            .filter_map(|p| Some((p.slot, *self.slots[p.slot].queue.front()?)))
    }

    /// Context tokens of the smallest head.
    pub(crate) fn smallest_head(&self) -> Option<u64> {
        self.sizes.first().map(|&(ctx, _)| ctx)
    }

    /// Tenants with a queued or running request.
    pub(crate) fn active(&self) -> usize {
        self.by_name
            .values()
            .filter(|&&s| !self.slots[s].idle())
            .count()
    }

    /// Bucket units that will be reserved ahead of a new request of the tenant, of the `total` that
    /// all `queued` requests will reserve: its own queue, and one turn of each other tenant for
    /// each of its own.
    pub(crate) fn reserve_ahead(&self, slot: Slot, total: f64, queued: u32) -> f64 {
        let tenant = &self.slots[slot];
        let others = self.order.len() - usize::from(!tenant.queue.is_empty());
        let one_turn = others as f64 * total / f64::from(queued.max(1));
        total.min(tenant.queued_reserve * (others as f64 + 1.0) + one_turn)
    }

    /// The newest request of the longest queue, where that is longer than `than`.
    pub(crate) fn longest(&self, than: usize) -> Option<(Slot, RequestId)> {
        let slots = self.order.iter().map(|place| place.slot);
        let slot = slots.max_by_key(|&slot| self.slots[slot].queue.len())?;
        let queue = &self.slots[slot].queue;
        (queue.len() > than).then(|| queue.back().map(|w| (slot, w.id)))?
    }

    /// Reckons anew what each queued request will reserve, and gives the sum.
    pub(crate) fn reckon_reserves(&mut self, reserve: impl Fn(RequestId) -> f64) -> f64 {
        for tenant in &mut self.slots {
            for waiting in &mut tenant.queue {
                waiting.reserve = reserve(waiting.id);
            }
            tenant.queued_reserve = tenant.queue.iter().map(|w| w.reserve).sum();
        }
        self.slots.iter().map(|t| t.queued_reserve).sum()
    }

    pub(crate) fn name(&self, slot: Slot) -> &Arc<str> {
        &self.slots[slot].name
    }
}
