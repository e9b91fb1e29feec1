//! Fairtide's own scheduler, the crate that the sidecar runs, under the settings of the manifests.

use super::{Asked, Came, Done, Front, Verdict, Why};
use fairtide_scheduler::{
    Decision, EngineFacts, Outcome, Refusal, Request, RequestId, Scheduler, Settings, Tokens,
};
use std::{collections::VecDeque, time::Duration};

/// Bytes of prompt text for a token, for the bounds on queued bytes.
const BYTES_PER_TOKEN: u64 = 4;

#[derive(Debug)]
pub(in crate::replay) struct Fairtide {
    scheduler: Scheduler,
    limit: Option<u32>,
    refused: VecDeque<Verdict>,
}

// === impl Fairtide ===

impl Fairtide {
    pub fn new(settings: Settings, facts: EngineFacts) -> Self {
        let limit = settings.limit.max_requests;
        let mut scheduler = Scheduler::new(settings, Duration::ZERO);
        scheduler.set_engine(facts, Duration::ZERO);
        Self {
            scheduler,
            limit,
            refused: VecDeque::new(),
        }
    }
}

impl Front for Fairtide {
    fn arrive(&mut self, asked: Asked, now: Duration) {
        let request = Request {
            id: RequestId(asked.id),
            class: asked.class,
            tenant: asked.tenant,
            prompt_tokens: asked.prompt_tokens,
            // Traces don't tell max_tokens.
            output_cap: None,
            streamed: true,
            body_bytes: asked.prompt_tokens * BYTES_PER_TOKEN,
        };
        if let Err(refusal) = self.scheduler.enqueue(request, now) {
            self.refused
                .push_back(Verdict::Refuse(asked.id, why(refusal)));
        }
    }

    fn token(&mut self, came: Came, now: Duration) {
        let tokens = Tokens {
            output: Some(came.output_tokens),
            ..Tokens::default()
        };
        self.scheduler.progress(RequestId(came.id), tokens, now);
    }

    fn done(&mut self, done: Done, now: Duration) {
        let tokens = Tokens {
            prompt: Some(done.prompt_tokens),
            cached: (done.cached_tokens > 0).then_some(done.cached_tokens),
            output: Some(done.output_tokens),
        };
        let id = RequestId(done.id);
        self.scheduler.end(id, Outcome::Completed, tokens, now);
    }

    fn limit(&self) -> Option<f64> {
        self.limit.map(f64::from)
    }

    fn poll(&mut self, now: Duration) -> Option<Verdict> {
        if let Some(verdict) = self.refused.pop_front() {
            return Some(verdict);
        }
        Some(match self.scheduler.poll(now)? {
            Decision::Start { id, .. } => Verdict::Start(id.0),
            Decision::Refuse { id, refusal, .. } => Verdict::Refuse(id.0, why(refusal)),
        })
    }

    fn wake_at(&self, now: Duration) -> Option<Duration> {
        self.scheduler.wake_at(now)
    }
}

fn why(refusal: Refusal) -> Why {
    Why {
        outcome: refusal.outcome.as_str(),
        reason: refusal.reason.as_str(),
    }
}
