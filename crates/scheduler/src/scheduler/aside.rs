//! What happens beside the rules: requests that no decision binds, an engine that is away for a
//! moment, and the end of the pod.

use super::{Entry, Running, Scheduler};
use crate::{Outcome, Reason, Request, RequestId};
use std::time::Duration;

// === impl Scheduler ===

impl Scheduler {
    /// A request goes to the engine whatever the limits say. It takes its seat and its tokens
    /// there like any other, so that those who are bound by the limits find the engine as full as
    /// it is; but it is charged to nobody: what passed while nothing was bound isn't paid back.
    pub fn pass(&mut self, request: Request, now: Duration) {
        let index = self.class_index(&request.class);
        let most = self.settings.max_tenants;
        let class = &mut self.classes[index];
        let slot = class.tenants.slot(&request.tenant, most);
        let half_answer = class.tenants.get(slot).outputs.p90_or(&class.outputs) / 2;
        let entry = Entry {
            class: index,
            slot,
            arrival: now,
            seq: self.next_seq,
            prompt_tokens: request.prompt_tokens,
            output_cap: request.output_cap,
            streamed: request.streamed,
            body_bytes: 0,
            output_estimate: 0,
            ctx: request.prompt_tokens + half_answer,
            passed: 0,
            running: None,
        };
        self.next_seq += 1;
        self.requests.insert(request.id, entry);
        self.run_unbound(request.id, now);
        self.observe_headroom(now);
    }

    /// All that is queued goes to the engine, as [`Scheduler::pass`] says. Gives who that is.
    pub fn let_all_go(&mut self, now: Duration) -> Vec<RequestId> {
        let queued = self.requests.iter().filter(|(_, e)| e.running.is_none());
        let mut queued: Vec<_> = queued.map(|(&id, entry)| (entry.seq, id)).collect();
        queued.sort_unstable();
        let ids: Vec<_> = queued.into_iter().map(|(_, id)| id).collect();
        for &id in &ids {
            self.remove_queued(id);
            self.run_unbound(id, now);
        }
        self.observe_headroom(now);
        ids
    }

    /// While held, nothing starts: the engine is away for a moment. What waits longer than its
    /// time to live is refused since there is no engine.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// From now on new requests are refused with `draining`, and so is what is queued but won't
    /// start within this time, by the rate of late. Once more with less, it refuses more.
    pub fn close(&mut self, starts_within: Duration, now: Duration) {
        self.draining = true;
        for index in 0..self.classes.len() {
            let class = &self.classes[index];
            let served = class
                .drain_rate()
                .map(|rate| (rate * starts_within.as_secs_f64()).ceil() as usize);
            let kept = match served {
                _ if starts_within.is_zero() => 0,
                Some(served) => served,
                None => usize::MAX,
            };
            let requests = &self.requests;
            let waits = |id: &RequestId| {
                let entry = requests.get(id);
                entry.is_some_and(|e| e.running.is_none() && e.class == index)
            };
            let arrivals = class.arrivals.iter().map(|&(_, id)| id);
            let late: Vec<_> = arrivals.filter(waits).skip(kept).collect();
            for id in late {
                self.refuse_queued(id, Outcome::Draining, Reason::Drain, None, now);
            }
        }
    }

    /// The pod isn't going away after all.
    pub fn reopen(&mut self) {
        self.draining = false;
    }

    /// How long half of the last requests took in the engine; `None`: none was seen.
    pub fn usual_stay(&self) -> Option<Duration> {
        self.stays.median().map(Duration::from_millis)
    }

    fn run_unbound(&mut self, id: RequestId, now: Duration) {
        let Some(entry) = self.requests.get_mut(&id) else {
            return;
        };
        entry.running = Some(Running {
            started: now,
            bound: false,
            reserved: 0.0,
            credit_estimate: 0.0,
            charged: 0.0,
            served: 0.0,
            prompt: entry.prompt_tokens,
            cached: 0,
            output: 0,
        });
        let class = &mut self.classes[entry.class];
        class.in_flight += 1;
        class.in_flight_ctx += entry.ctx;
        class.tenants.note_running(entry.slot);
        self.in_flight += 1;
        self.in_flight_ctx += entry.ctx;
        if !class.interactive() {
            self.batch_in_flight += 1;
        }
        if !entry.streamed {
            self.unseen.push(id);
        }
    }
}
