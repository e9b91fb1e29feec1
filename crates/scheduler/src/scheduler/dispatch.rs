//! The order in which heads start, and what is due by time.

use super::{
    Running, Scheduler,
    admit::{Rank, Verdict},
};
use crate::{Decision, Outcome, Reason, RequestId, cost};
use std::{cmp::Ordering, time::Duration};

/// A head that doesn't fit may be passed over by this many others, then it blocks them.
const PASSES: u32 = 8;
/// While anything waits, the scheduler looks again after this long: the reserve shrinks and credit
/// fades without an event.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A class with work that no limit of its own stops.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    index: usize,
    rank: Rank,
    /// Smaller first, within a rank.
    key: (f64, f64),
}

// === impl Candidate ===

impl Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let stage = |rank| match rank {
            Rank::StartDue => 0,
            Rank::Owed => 1,
            Rank::Ordinary => 2,
        };
        stage(self.rank)
            .cmp(&stage(other.rank))
            .then(self.key.0.total_cmp(&other.key.0))
            .then(self.key.1.total_cmp(&other.key.1))
            .then(self.index.cmp(&other.index))
    }
}

// === impl Scheduler ===

impl Scheduler {
    /// The next thing that is due. Call until it says `None`.
    pub fn poll(&mut self, now: Duration) -> Option<Decision> {
        if let Some(decision) = self.pending.pop_front() {
            return Some(decision);
        }
        self.expire(now);
        if let Some(decision) = self.pending.pop_front() {
            return Some(decision);
        }
        self.accrue(now);
        self.look(now);
        if self.held {
            return None;
        }
        let (id, reason) = self.next_start(now)?;
        self.start(id, reason, now)
    }

    /// When [`Scheduler::poll`] must be called although nothing has happened; `None`: not before
    /// the next event.
    pub fn wake_at(&self, now: Duration) -> Option<Duration> {
        if !self.pending.is_empty() {
            return Some(now);
        }
        let mut wake: Option<Duration> = None;
        let mut sooner = |at: Duration| wake = Some(wake.map_or(at, |w| w.min(at)));
        if !self.unseen.is_empty() {
            sooner(self.accrued_at + super::charge::ACCRUE_EVERY);
        }
        for class in self.classes.iter().filter(|c| c.queued > 0) {
            sooner(now + LOOK_AGAIN);
            if let Some(&(arrival, _)) = class.arrivals.front() {
                sooner(arrival + class.settings.queue.ttl);
            }
            if let Some(bucket) = class.bucket.as_ref().filter(|b| !b.ready(now)) {
                sooner(now + bucket.wait(0.0, now));
            }
            if let (0, Some(every)) = (class.in_flight, class.settings.at_least_every) {
                sooner((class.last_start + every).max(now));
            }
        }
        // A start that is due but has no seat comes with the event that frees one.
        wake.map(|at| {
            if at <= now {
                now + LOOK_AGAIN.min(Duration::from_millis(50))
            } else {
                at
            }
        })
    }

    /// Refuses what has waited its whole TTL.
    fn expire(&mut self, now: Duration) {
        for index in 0..self.classes.len() {
            let requests = &self.requests;
            let class = &mut self.classes[index];
            class.trim_arrivals(|id| {
                requests
                    .get(&id)
                    .is_some_and(|e| e.running.is_none() && e.class == index)
            });
            let ttl = class.settings.queue.ttl;
            while let Some(&(arrival, id)) = self.classes[index].arrivals.front() {
                let waits = self.requests.get(&id).is_some_and(|e| e.running.is_none());
                if waits && now.saturating_sub(arrival) < ttl {
                    break;
                }
                self.classes[index].arrivals.pop_front();
                if waits {
                    let wait = Some(self.drain_wait(index));
                    let (outcome, reason) = match self.held {
                        true => (Outcome::EngineUnavailable, Reason::EngineConnect),
                        false => (Outcome::QueueTimeout, Reason::QueueTtl),
                    };
                    self.refuse_queued(id, outcome, reason, wait, now);
                }
            }
        }
    }

    /// Notes which classes have become eligible since the last look, and lifts their counters:
    /// level with the least of their equals that are eligible, else with the last that was served.
    fn look(&mut self, now: Duration) {
        let spent = now.saturating_sub(self.looked_at);
        self.looked_at = now;
        self.service.add(0.0, spent.as_secs_f64(), now);
        let limits = self.own_limits();
        for index in 0..self.classes.len() {
            let class = &self.classes[index];
            let eligible = class
                .tenants
                .smallest_head()
                .is_some_and(|ctx| !class.self_limited(&limits, ctx, now));
            let (was, priority) = (class.eligible, class.settings.priority);
            if was && eligible {
                self.classes[index].note_eligible(spent, now);
            }
            if eligible && !was {
                let equals = self
                    .classes
                    .iter()
                    .filter(|c| c.eligible && c.settings.priority == priority);
                let least = equals.map(|c| c.counter).min_by(f64::total_cmp);
                let level = least.or_else(|| self.last_counter.get(&priority).copied());
                let class = &mut self.classes[index];
                class.counter = class.counter.max(level.unwrap_or(0.0));
            }
            self.classes[index].eligible = eligible;
        }
        self.observe_headroom(now);
    }

    /// The head that is to start now.
    fn next_start(&mut self, now: Duration) -> Option<(RequestId, Reason)> {
        if self.seats_taken() {
            return None;
        }
        let mut passed = Vec::new();
        for candidate in self.candidates(now) {
            let class = &self.classes[candidate.index];
            let verdict = |ctx| self.admit(candidate.index, candidate.rank, ctx);
            let oldest = class
                .arrivals
                .front()
                .map(|&(arrival, _)| now.saturating_sub(arrival));
            let patient = oldest.is_none_or(|age| age * 2 <= class.settings.queue.ttl)
                && candidate.rank == Rank::Ordinary;

            // The smallest head tells for all of them whether any fits.
            let smallest = verdict(class.tenants.smallest_head().unwrap_or(0));
            let fitting = matches!(smallest, Verdict::Start(_));
            let mut heads = class.tenants.heads();
            let (_, first) = heads.next()?;
            let mut chosen = None;
            let mut unfit = None;
            match verdict(first.ctx) {
                Verdict::Start(reason) => chosen = Some((first.id, reason)),
                Verdict::Reserved => continue,
                Verdict::NoShare if !fitting => continue,
                no @ (Verdict::NoRoom | Verdict::NoShare) => {
                    unfit = Some(first.id);
                    let entry = self.requests.get(&first.id);
                    let blocks = !patient || entry.is_some_and(|e| e.passed >= PASSES);
                    if blocks && no == Verdict::NoRoom {
                        return None;
                    }
                    if blocks {
                        continue;
                    }
                    if fitting {
                        chosen = heads.find_map(|(_, head)| match verdict(head.ctx) {
                            Verdict::Start(reason) => Some((head.id, reason)),
                            _ => None,
                        });
                    }
                }
            }
            passed.extend(unfit);
            if let Some(chosen) = chosen {
                for id in passed {
                    if let Some(entry) = self.requests.get_mut(&id) {
                        entry.passed += 1;
                    }
                }
                return Some(chosen);
            }
        }
        None
    }

    /// The eligible classes: starts that are due, then what is owed, then by priority and counter.
    fn candidates(&self, now: Duration) -> Vec<Candidate> {
        let eligible = self.classes.iter().enumerate().filter(|(_, c)| c.eligible);
        let mut candidates: Vec<_> = eligible
            .map(|(index, class)| {
                let rank = self.rank(index, now);
                let key = match rank {
                    Rank::StartDue => (class.last_start.as_secs_f64(), 0.0),
                    Rank::Owed => (-class.credit / f64::from(class.settings.min_share), 0.0),
                    Rank::Ordinary => (-f64::from(class.settings.priority), class.counter),
                };
                Candidate { index, rank, key }
            })
            .collect();
        candidates.sort_by(Candidate::cmp);
        candidates
    }

    fn start(&mut self, id: RequestId, reason: Reason, now: Duration) -> Option<Decision> {
        let reserved = self.remove_queued(id)?;
        let entry = self.requests.get_mut(&id)?;
        let class = &mut self.classes[entry.class];
        let prompt_cost = cost::prompt(entry.prompt_tokens, 0);
        let estimate = prompt_cost + cost::output(entry.output_estimate.min(class.outputs.mean()));
        entry.running = Some(Running {
            started: now,
            bound: true,
            reserved,
            credit_estimate: estimate,
            charged: prompt_cost,
            served: 0.0,
            prompt: entry.prompt_tokens,
            cached: 0,
            output: 0,
        });
        let queued = now.saturating_sub(entry.arrival);
        let (ctx, slot, index) = (entry.ctx, entry.slot, entry.class);
        if !entry.streamed {
            self.unseen.push(id);
        }
        class.in_flight += 1;
        class.in_flight_ctx += ctx;
        class.note_start(now);
        if let Some(bucket) = &mut class.bucket {
            bucket.debit(reserved, now);
        }
        class.credit = (class.credit - estimate).max(-estimate);
        self.last_counter
            .insert(class.settings.priority, class.counter);
        class.tenants.note_start(slot);
        class.tenants.charge(slot, prompt_cost);
        class.counter += prompt_cost / f64::from(class.settings.weight);
        self.in_flight += 1;
        self.in_flight_ctx += ctx;
        if !class.interactive() {
            self.batch_in_flight += 1;
        }
        self.leave_charge(index, slot, reserved, prompt_cost);
        self.observe_headroom(now);
        Some(Decision::Start { id, queued, reason })
    }
}
