//! The scheduler: events in, decisions out.

use crate::{
    Decision, EngineFacts, Outcome, Refusal, Request, RequestId, Settings, Snapshot, Tokens,
};
use std::time::Duration;

/// Orders and limits the requests of one pod.
#[derive(Debug)]
pub struct Scheduler {
    settings: Settings,
}

// === impl Scheduler ===

impl Scheduler {
    /// An empty pod under a policy.
    pub fn new(settings: Settings, _now: Duration) -> Self {
        Self { settings }
    }

    /// Puts another policy in force. Nothing that is queued or running is lost: what a class that
    /// is gone had queued goes to the default class, keeping its arrival time.
    pub fn apply(&mut self, settings: Settings, _now: Duration) {
        self.settings = settings;
    }

    /// Takes note of what is known of the engine.
    pub fn set_engine(&mut self, _facts: EngineFacts, _now: Duration) {}

    /// Queues a request, or refuses it at once. Call [`Scheduler::poll`] afterwards: it may be due.
    ///
    /// # Errors
    /// The refusal that the request ends with; the scheduler has forgotten it.
    pub fn enqueue(&mut self, _request: Request, _now: Duration) -> Result<(), Refusal> {
        Ok(())
    }

    /// The next thing that is due. Call until it says `None`.
    pub fn poll(&mut self, _now: Duration) -> Option<Decision> {
        None
    }

    /// When [`Scheduler::poll`] must be called although nothing has happened; `None`: not before
    /// the next event.
    pub fn wake_at(&self, _now: Duration) -> Option<Duration> {
        None
    }

    /// Tokens of a running request were seen. An id that isn't running is ignored.
    pub fn progress(&mut self, _id: RequestId, _tokens: Tokens, _now: Duration) {}

    /// A queued or running request is over: it completed, failed, or its client left. Frees its
    /// place, seat and reserved tokens. An id that is neither is ignored.
    pub fn end(&mut self, _id: RequestId, _outcome: Outcome, _tokens: Tokens, _now: Duration) {}

    /// From now on new requests are refused with `draining`; what is queued is still served.
    pub fn drain(&mut self) {}

    /// The state at this moment.
    pub fn snapshot(&self, _now: Duration) -> Snapshot {
        Snapshot::default()
    }
}
