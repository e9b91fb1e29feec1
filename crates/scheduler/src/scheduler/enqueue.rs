//! Arrival: what can never be served is refused for good, what the queue can't hold for now.

use super::{Entry, Scheduler};
use crate::{Decision, Outcome, Reason, Refusal, Request, RequestId, tenants::Waiting};
use std::time::Duration;

/// Suggested wait where no rate is known to reckon it from.
const UNKNOWN_WAIT: Duration = Duration::from_secs(5);
/// The longest wait that is ever suggested.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// A prompt is only refused for its size from this many times what the engine holds: its tokens
/// are an estimate, and what is near the limit the engine itself judges better.
const CERTAIN: u64 = 2;

impl Scheduler {
    /// Queues a request, or refuses it at once. Call [`Scheduler::poll`] afterwards: it may be due.
    ///
    /// # Errors
    /// The refusal that the request ends with; the scheduler has forgotten it.
    pub fn enqueue(&mut self, request: Request, now: Duration) -> Result<(), Refusal> {
        let index = self.class_index(&request.class);
        let result = self.try_enqueue(index, request, now);
        self.classes[index].note_offer(result.is_err(), now);
        result.map_err(|(outcome, reason, retry_after)| Refusal {
            outcome,
            reason,
            retry_after,
            storm: self.classes[index].storm(now),
        })
    }

    pub(super) fn class_index(&self, name: &str) -> usize {
        let default = || self.by_name.get(&self.settings.default_class);
        self.by_name
            .get(name)
            .or_else(default)
            .copied()
            .unwrap_or(0)
    }

    fn try_enqueue(
        &mut self,
        index: usize,
        request: Request,
        now: Duration,
    ) -> Result<(), (Outcome, Reason, Option<Duration>)> {
        if self.draining {
            return Err((Outcome::Draining, Reason::Drain, Some(UNKNOWN_WAIT)));
        }
        for (held, reason) in [
            (self.engine.context_tokens, Reason::ContextWindow),
            (self.engine.kv_tokens, Reason::KvCache),
        ] {
            if held.is_some_and(|held| request.prompt_tokens > held.saturating_mul(CERTAIN)) {
                return Err((Outcome::TooLarge, reason, None));
            }
        }
        if self.queued_bytes + request.body_bytes > self.settings.max_queued_bytes {
            let wait = Some(self.drain_wait(index));
            return Err((Outcome::MemoryPressure, Reason::PodMemory, wait));
        }

        let class = &self.classes[index];
        let estimate = self.output_estimate(index, &request);
        let tokens = request.prompt_tokens.saturating_add(estimate);
        let reserve = class.reserve(tokens);
        if class.bucket.as_ref().is_some_and(|b| reserve > b.burst()) {
            return Err((Outcome::BadRequest, Reason::BucketCapacity, None));
        }
        // An empty queue takes one request, whatever its size.
        let bound =
            |most: Option<u64>, sum: u64| class.queued > 0 && most.is_some_and(|most| sum > most);
        let queue = &class.settings.queue;
        if bound(queue.max_tokens, class.queued_tokens.saturating_add(tokens)) {
            let wait = Some(self.drain_wait(index));
            return Err((Outcome::QueueFull, Reason::QueueTokens, wait));
        }
        if bound(queue.max_bytes, class.queued_bytes + request.body_bytes) {
            let wait = Some(self.drain_wait(index));
            return Err((Outcome::QueueFull, Reason::QueueBytes, wait));
        }

        let (per_tenant, ttl) = (queue.per_tenant, queue.ttl);
        let full = class.queued >= class.queue_bound(self.seats());
        let most = self.settings.max_tenants;
        let class = &mut self.classes[index];
        let slot = class.tenants.slot(&request.tenant, most);
        let own_queue = class.tenants.get(slot).queued();
        if per_tenant.is_some_and(|most| own_queue >= most as usize) {
            let wait = Some(self.drain_wait(index));
            return Err((Outcome::QueueFull, Reason::QueueTenant, wait));
        }
        if let Some(bucket) = &class.bucket {
            let ahead = class
                .tenants
                .reserve_ahead(slot, class.queued_reserve, class.queued);
            let wait = bucket.wait(ahead + class.reserved_elsewhere, now);
            if wait > ttl {
                return Err((
                    Outcome::BucketEmpty,
                    Reason::Bucket,
                    Some(wait.min(LONGEST_WAIT)),
                ));
            }
        }
        if full {
            // One tenant's backlog must not shut the others out: the newest of the longest queue
            // makes room for a tenant that has clearly less.
            let Some((_, loser)) = class.tenants.longest(own_queue + 1) else {
                let wait = Some(self.drain_wait(index));
                return Err((Outcome::QueueFull, Reason::QueueRequests, wait));
            };
            let wait = Some(self.drain_wait(index));
            self.refuse_queued(loser, Outcome::QueueFull, Reason::QueueRequests, wait, now);
        }

        let class = &self.classes[index];
        let half_answer = class.tenants.get(slot).outputs.p90_or(&class.outputs) / 2;
        let ctx = request.prompt_tokens + half_answer.min(request.output_cap.unwrap_or(u64::MAX));
        let entry = Entry {
            class: index,
            slot,
            arrival: now,
            seq: self.next_seq,
            prompt_tokens: request.prompt_tokens,
            output_cap: request.output_cap,
            streamed: request.streamed,
            body_bytes: request.body_bytes,
            output_estimate: estimate,
            ctx,
            passed: 0,
            running: None,
        };
        self.next_seq += 1;
        self.insert_queued(request.id, entry, now);
        Ok(())
    }

    /// Output that the request is taken to have: its explicit cap, else what is usual; never more
    /// than the context window leaves.
    fn output_estimate(&self, index: usize, request: &Request) -> u64 {
        let usual = self.classes[index].outputs.mean();
        let room = self
            .engine
            .context_tokens
            .map(|c| c.saturating_sub(request.prompt_tokens));
        request
            .output_cap
            .unwrap_or(usual)
            .min(room.unwrap_or(u64::MAX))
    }

    pub(super) fn insert_queued(&mut self, id: RequestId, entry: Entry, now: Duration) {
        let class = &mut self.classes[entry.class];
        let tokens = entry.tokens();
        let reserve = class.reserve(tokens);
        class.queued += 1;
        class.queued_tokens += tokens;
        class.queued_bytes += entry.body_bytes;
        class.queued_reserve += reserve;
        self.queued_bytes += entry.body_bytes;
        let waiting = Waiting {
            id,
            seq: entry.seq,
            ctx: entry.ctx,
            reserve,
        };
        class.tenants.push(entry.slot, waiting);
        class.arrivals.push_back((entry.arrival, id));
        self.requests.insert(id, entry);
        self.observe_headroom(now);
    }

    /// Takes a request out of its queue, for whatever comes next.
    pub(super) fn remove_queued(&mut self, id: RequestId) -> Option<f64> {
        let entry = self.requests.get(&id).filter(|e| e.running.is_none())?;
        let class = &mut self.classes[entry.class];
        let waiting = class.tenants.remove(entry.slot, id)?;
        let tokens = entry.tokens();
        class.queued -= 1;
        class.queued_tokens -= tokens;
        class.queued_bytes -= entry.body_bytes;
        class.queued_reserve -= waiting.reserve;
        if class.queued == 0 {
            class.queued_reserve = 0.0; // the sum's rounding ends with the queue
        }
        self.queued_bytes -= entry.body_bytes;
        Some(waiting.reserve)
    }

    /// Refuses a request that was queued; the decision is given by the next poll.
    pub(super) fn refuse_queued(
        &mut self,
        id: RequestId,
        outcome: Outcome,
        reason: Reason,
        retry_after: Option<Duration>,
        now: Duration,
    ) {
        if self.remove_queued(id).is_none() {
            return;
        }
        let Some(entry) = self.requests.remove(&id) else {
            return;
        };
        let class = &mut self.classes[entry.class];
        class.note_late_refusal(now);
        let refusal = Refusal {
            outcome,
            reason,
            retry_after,
            storm: class.storm(now),
        };
        self.pending.push_back(Decision::Refuse {
            id,
            queued: now.saturating_sub(entry.arrival),
            refusal,
        });
    }

    /// How long the class's queue takes to drain at its present rate.
    pub(super) fn drain_wait(&self, index: usize) -> Duration {
        let class = &self.classes[index];
        let wait = class
            .drain_rate()
            .map(|rate| f64::from(class.queued) / rate);
        wait.and_then(|w| Duration::try_from_secs_f64(w).ok())
            .map_or(UNKNOWN_WAIT, |w| {
                w.clamp(Duration::from_secs(1), LONGEST_WAIT)
            })
    }
}
