//! What runs: its tokens are charged as they come, and trued up at the end.

use super::{Entry, Scheduler};
use crate::{BucketUnit, Outcome, RequestId, Tokens, cost};
use std::time::Duration;

/// How often tokens of answers that aren't streamed are accrued.
pub(super) const ACCRUE_EVERY: Duration = Duration::from_millis(250);
/// A class is owed at most what it is guaranteed over this long.
const CREDIT_SPAN: f64 = 10.0;

impl Scheduler {
    /// Tokens of a running request were seen. An id that isn't running is ignored.
    pub fn progress(&mut self, id: RequestId, tokens: Tokens, now: Duration) {
        let Some(entry) = self.requests.get_mut(&id) else {
            return;
        };
        let Some(running) = &mut entry.running else {
            return;
        };
        running.prompt = tokens.prompt.unwrap_or(running.prompt);
        running.cached = tokens.cached.unwrap_or(running.cached);
        running.output = tokens.output.unwrap_or(running.output).max(running.output);
        if running.output == 0 {
            return;
        }
        let ctx = running.prompt + running.output;
        let delivered = cost::prompt(running.prompt, running.cached) + cost::output(running.output);
        self.resize(id, ctx);
        self.settle(id, delivered, delivered, now);
    }

    /// Accrues what answers that aren't streamed have taken, by the usual speed of their class.
    pub(super) fn accrue(&mut self, now: Duration) {
        if self.unseen.is_empty() || now.saturating_sub(self.accrued_at) < ACCRUE_EVERY {
            return;
        }
        self.accrued_at = now;
        for id in self.unseen.clone() {
            let Some(entry) = self.requests.get(&id) else {
                continue;
            };
            let Some(running) = entry.running else {
                continue;
            };
            let class = &self.classes[entry.class];
            let stay = now.saturating_sub(running.started).as_secs_f64();
            let longest = entry.output_cap.unwrap_or(u64::MAX);
            let likely = class.tenants.get(entry.slot).outputs.p90_or(&class.outputs);
            let output = (stay * class.usual_speed()) as u64;
            let output = output.min(longest).min(likely);
            let delivered = cost::prompt(running.prompt, running.cached) + cost::output(output);
            self.settle(id, delivered, delivered, now);
        }
    }

    /// A queued or running request is over: it completed, failed, or its client left. Frees its
    /// place, seat and reserved tokens. An id that is neither is ignored.
    pub fn end(&mut self, id: RequestId, outcome: Outcome, tokens: Tokens, now: Duration) {
        self.remove_queued(id);
        let Some(entry) = self.requests.get(&id) else {
            return;
        };
        if entry.running.is_some() {
            self.end_running(id, outcome, tokens, now);
        }
        self.requests.remove(&id);
        self.observe_headroom(now);
    }

    fn end_running(&mut self, id: RequestId, outcome: Outcome, tokens: Tokens, now: Duration) {
        let Some((entry, running)) = self.requests.get(&id).and_then(|e| Some((e, e.running?)))
        else {
            return;
        };
        let prompt = tokens.prompt.unwrap_or(running.prompt);
        let cached = tokens.cached.unwrap_or(running.cached);
        let seen = tokens.output.unwrap_or(running.output);
        let whole = outcome == Outcome::Completed;
        // An answer of unknown length is taken for what was accrued; one that never began costs
        // nothing.
        let begun = whole || seen > 0;
        let delivered = if tokens.output.is_none() && whole && !entry.streamed {
            running.served.max(cost::prompt(prompt, cached))
        } else if begun {
            cost::prompt(prompt, cached) + cost::output(seen)
        } else {
            0.0
        };
        let raw_tokens = if begun { prompt + seen } else { 0 };
        let stay = now.saturating_sub(running.started);
        let (index, slot, ctx, streamed) = (entry.class, entry.slot, entry.ctx, entry.streamed);
        let reached_engine = outcome != Outcome::EngineUnavailable;

        self.settle(id, delivered, delivered, now);
        if !streamed {
            self.unseen.retain(|&other| other != id);
        }
        let span = self.credit_span(index);
        let class = &mut self.classes[index];
        if running.bound {
            let owed = class.credit + running.credit_estimate - delivered;
            class.credit = owed.clamp(-delivered.max(running.credit_estimate), span.max(0.0));
        }
        let unit = class.bucket.as_ref().map(|b| b.unit());
        let refund = match unit.filter(|_| running.bound) {
            Some(BucketUnit::Tokens) => running.reserved - raw_tokens as f64,
            Some(BucketUnit::Requests) if !reached_engine => running.reserved,
            _ => 0.0,
        };
        if let Some(bucket) = &mut class.bucket {
            bucket.debit(-refund, now);
        }
        if whole {
            self.stays.record(stay.as_millis() as u64);
        }
        if let (true, Some(output)) = (whole, tokens.output) {
            class.outputs.record(output);
            class.tenants.record_output(slot, output);
            class.speed.add(output as f64, stay.as_secs_f64(), now);
        }
        class.in_flight -= 1;
        class.in_flight_ctx -= ctx;
        class.tenants.note_end(slot);
        self.in_flight -= 1;
        self.in_flight_ctx -= ctx;
        if !class.interactive() {
            self.batch_in_flight -= 1;
            self.headroom.batch_ended(stay, now);
        }
        self.leave_charge(index, slot, -refund, 0.0);
    }

    /// The request holds this many context tokens from now on.
    fn resize(&mut self, id: RequestId, ctx: u64) {
        let Some(entry) = self.requests.get_mut(&id) else {
            return;
        };
        let old = std::mem::replace(&mut entry.ctx, ctx);
        let class = &mut self.classes[entry.class];
        class.in_flight_ctx = class.in_flight_ctx - old + ctx;
        self.in_flight_ctx = self.in_flight_ctx - old + ctx;
    }

    /// Brings what was charged and what was served of a running request to these sums.
    fn settle(&mut self, id: RequestId, charged: f64, served: f64, now: Duration) {
        let Some(Entry {
            class,
            slot,
            running: Some(running),
            ..
        }) = self.requests.get_mut(&id)
        else {
            return;
        };
        let (index, slot) = (*class, *slot);
        // What was never bound is charged to nobody.
        let charged = if running.bound { charged } else { 0.0 };
        let charge = charged - std::mem::replace(&mut running.charged, charged);
        let serve = served - std::mem::replace(&mut running.served, served);
        let class = &mut self.classes[index];
        if charge != 0.0 {
            class.counter += charge / f64::from(class.settings.weight);
            class.tenants.charge(slot, charge);
            self.leave_charge(index, slot, 0.0, charge);
        }
        let class = &mut self.classes[index];
        if serve != 0.0 {
            class.served += serve;
            self.served += serve;
            self.service.add(serve, 0.0, now);
            self.credit(serve);
        }
    }

    /// Credits every class that waits for the pod with its part of what the pod has served.
    fn credit(&mut self, served: f64) {
        for index in 0..self.classes.len() {
            let class = &self.classes[index];
            if !class.eligible || class.settings.min_share == 0 {
                continue;
            }
            let part = served * f64::from(class.settings.min_share) / 100.0;
            let most = self.credit_span(index);
            let class = &mut self.classes[index];
            class.credit = (class.credit + part).min(most.max(class.credit));
        }
    }

    /// What the class is guaranteed over [`CREDIT_SPAN`] at the present rate of service, in cost.
    fn credit_span(&self, index: usize) -> f64 {
        let share = f64::from(self.classes[index].settings.min_share) / 100.0;
        self.service.ratio(1e-9).unwrap_or(0.0).max(0.0) * share * CREDIT_SPAN
    }
}
