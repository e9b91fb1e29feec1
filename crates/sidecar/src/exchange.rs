//! One admitted request, from its arrival to its one outcome.
//!
//! An [`Exchange`] is a guard. Whatever happens to a request (it is answered, refused, its client
//! leaves in any phase, a task is aborted), its exchange is dropped exactly once, and there and
//! only there the outcome is counted, written to the ring and the log, and told to the scheduler,
//! which frees the place, the seat and the tokens. Whoever knows how the request ended says so
//! with [`Exchange::decide`]; the first word counts. If nobody did, the client has left.

use crate::{
    admission::{Admission, Verdict},
    decisions::{Decided, Decisions},
    metrics::{ClassLabel, Metrics, OutcomeLabels, TokenLabels},
    readiness::Pulse,
    tenant::Tenant,
};
use fairtide_scheduler::{Outcome, Reason, Request, RequestId, Tokens};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Tokens of a stream are told to the scheduler at least this often...
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// ... or after so many tokens.
const PROGRESS_TOKENS: u64 = 16;

/// Where outcomes are told.
#[derive(Clone, Debug)]
pub(crate) struct Observers {
    pub(crate) admission: Admission,
    pub(crate) metrics: Metrics,
    pub(crate) decisions: Arc<Decisions>,
    pub(crate) pulse: Pulse,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Exchange {
    observers: Observers,
    id: RequestId,
    request_id: Arc<str>,
    class: Arc<str>,
    tenant: Arc<str>,
    arrived: Instant,
    phase: Phase,
    queued: Duration,
    /// Set while it waits.
    queued_at: Option<Instant>,
    /// By which rule it was started.
    started_by: Option<Reason>,
    decided: Option<(Outcome, Reason)>,
    /// Whether it counts among the arrivals of its class.
    arrival_counted: bool,
    prompt_estimate: u64,
    tokens: Tokens,
    told: Tokens,
    told_at: Instant,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
    /// The drain waits until the last of these is gone.
    _alive: TaskTrackerToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its body is being read.
    Arriving,
    /// The scheduler has it, queued or decided on.
    Queued,
    /// In the engine.
    Running,
}

// === impl Exchange ===

impl Exchange {
    /// A request whose head has been read. `class` is what its head says; its body may say more.
    pub(crate) fn new(
        observers: Observers,
        request_id: Arc<str>,
        class: Arc<str>,
        tenant: &Tenant,
        alive: TaskTrackerToken,
    ) -> Self {
        let now = Instant::now();
        Self {
            id: observers.admission.new_id(),
            observers,
            request_id,
            class,
            tenant: tenant.shown.clone(),
            arrived: now,
            phase: Phase::Arriving,
            queued: Duration::ZERO,
            queued_at: None,
            started_by: None,
            decided: None,
            arrival_counted: false,
            prompt_estimate: 0,
            tokens: Tokens::default(),
            told: Tokens::default(),
            told_at: now,
            first_token: None,
            last_token: None,
            _alive: alive,
        }
    }

    pub(crate) fn request_id(&self) -> &Arc<str> {
        &self.request_id
    }

    pub(crate) fn class(&self) -> &Arc<str> {
        &self.class
    }

    pub(crate) fn queued(&self) -> Duration {
        self.queued
    }

    /// The rule that started or refused it.
    pub(crate) fn reason(&self) -> Reason {
        match (self.decided, self.started_by) {
            (Some((outcome, reason)), _) if outcome != Outcome::Completed => reason,
            (_, Some(reason)) => reason,
            _ => Reason::ClientLeft,
        }
    }

    /// The outcome, if it is known already.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.decided.map(|(outcome, _)| outcome)
    }

    /// The body has been read: this is the request's class for good.
    pub(crate) fn classify(&mut self, class: Arc<str>, prompt_estimate: u64) {
        self.class = class;
        self.prompt_estimate = prompt_estimate;
        self.count_arrival();
    }

    /// Waits for the scheduler's decision.
    pub(crate) async fn admit(
        &mut self,
        tenant: &Tenant,
        output_cap: Option<u64>,
        streamed: bool,
        body_bytes: u64,
    ) -> Verdict {
        let request = Request {
            id: self.id,
            class: self.class.clone(),
            tenant: tenant.key.clone(),
            prompt_tokens: self.prompt_estimate,
            output_cap,
            streamed,
            body_bytes,
        };
        self.enter(Phase::Queued);
        self.queued_at = Some(Instant::now());
        let verdict = self.observers.admission.admit(request).await;
        let queued = match verdict {
            Verdict::Start { queued, .. } | Verdict::Refuse { queued, .. } => queued,
        };
        self.queued = queued;
        self.queued_at = None;
        let waits = &self.observers.metrics.queue_seconds;
        waits
            .get_or_create(&ClassLabel::new(&self.class))
            .observe(queued.as_secs_f64());
        verdict
    }

    /// It goes to the engine without a decision. Its body isn't read, so little is known of it.
    pub(crate) fn pass(&mut self, tenant: &Tenant, prompt_estimate: u64) {
        self.classify(self.class.clone(), prompt_estimate);
        self.observers.admission.pass(Request {
            id: self.id,
            class: self.class.clone(),
            tenant: tenant.key.clone(),
            prompt_tokens: prompt_estimate,
            output_cap: None,
            streamed: true,
            body_bytes: 0,
        });
        self.start(Reason::PassThrough);
    }

    /// Something came from the engine.
    pub(crate) fn beat(&self) {
        self.observers.pulse.beat();
    }

    /// It goes to the engine now.
    pub(crate) fn start(&mut self, reason: Reason) {
        self.started_by = Some(reason);
        self.enter(Phase::Running);
    }

    /// How it ended. The first word counts.
    pub(crate) fn decide(&mut self, outcome: Outcome, reason: Reason) {
        self.decided.get_or_insert((outcome, reason));
    }

    /// The engine did nothing for it: all that was reserved is given back.
    pub(crate) fn cost_nothing(&mut self) {
        self.tokens = Tokens {
            prompt: Some(0),
            cached: None,
            output: Some(0),
        };
    }

    /// What the engine says of it by itself, at the end of an answer.
    pub(crate) fn set_tokens(&mut self, tokens: Tokens) {
        self.tokens = tokens;
    }

    /// A stream has moved on; `new_output` tells whether by output.
    pub(crate) fn progress(&mut self, tokens: Tokens, new_output: bool) {
        self.tokens = tokens;
        let now = Instant::now();
        if new_output {
            self.first_token.get_or_insert(now);
            self.last_token = Some(now);
        }
        let told = self.told.output.unwrap_or(0);
        let more = tokens.output.unwrap_or(0).saturating_sub(told);
        let due = more >= PROGRESS_TOKENS || now - self.told_at >= PROGRESS_EVERY;
        if due && tokens != self.told {
            self.told = tokens;
            self.told_at = now;
            self.observers.admission.progress(self.id, tokens);
        }
    }

    fn count_arrival(&mut self) {
        if !std::mem::replace(&mut self.arrival_counted, true) {
            let arrivals = &self.observers.metrics.arrivals;
            arrivals.get_or_create(&ClassLabel::new(&self.class)).inc();
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.leave_phase();
        self.phase = phase;
        let label = ClassLabel::new(&self.class);
        match phase {
            Phase::Arriving => {}
            Phase::Queued => {
                self.observers.metrics.queued.get_or_create(&label).inc();
            }
            Phase::Running => {
                self.observers.metrics.in_flight.get_or_create(&label).inc();
            }
        }
    }

    fn leave_phase(&self) {
        let label = ClassLabel::new(&self.class);
        match self.phase {
            Phase::Arriving => {}
            Phase::Queued => {
                self.observers.metrics.queued.get_or_create(&label).dec();
            }
            Phase::Running => {
                self.observers.metrics.in_flight.get_or_create(&label).dec();
            }
        }
    }

    fn observe_stream(&self) {
        let (Some(first), Some(last)) = (self.first_token, self.last_token) else {
            return;
        };
        let metrics = &self.observers.metrics;
        let label = ClassLabel::new(&self.class);
        metrics
            .ttft_seconds
            .get_or_create(&label)
            .observe((first - self.arrived).as_secs_f64());
        let further = self.tokens.output.unwrap_or(0).saturating_sub(1);
        if further > 0 {
            let mean = (last - first).as_secs_f64() / further as f64;
            metrics.tpot_seconds.get_or_create(&label).observe(mean);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let (outcome, reason) = self.decided.unwrap_or(match self.phase {
            Phase::Arriving | Phase::Queued => (Outcome::CancelledQueued, Reason::ClientLeft),
            Phase::Running => (Outcome::CancelledRunning, Reason::ClientLeft),
        });
        if let Some(since) = self.queued_at {
            self.queued = since.elapsed();
        }
        self.leave_phase();
        self.observers.admission.end(self.id, outcome, self.tokens);
        self.observe_stream();

        self.count_arrival();
        let metrics = &self.observers.metrics;
        let labels = OutcomeLabels::new(&self.class, outcome);
        metrics.requests.get_or_create(&labels).inc();
        if self.phase == Phase::Running {
            let prompt = self.tokens.prompt.unwrap_or(self.prompt_estimate);
            for (kind, count) in [
                ("prompt", prompt),
                ("output", self.tokens.output.unwrap_or(0)),
            ] {
                let labels = TokenLabels::new(&self.class, kind);
                metrics.tokens.get_or_create(&labels).inc_by(count);
            }
        }

        // Completed requests are remembered by the rule that let them start.
        let reason = match outcome {
            Outcome::Completed => self.started_by.unwrap_or(reason),
            _ => reason,
        };
        let (outcome, reason) = Decided::words(outcome, reason);
        let queue_ms = self.queued.as_millis() as u64;
        tracing::debug!(
            request_id = %self.request_id,
            class = %self.class,
            tenant = %self.tenant,
            outcome,
            reason,
            queue_ms,
            total_ms = self.arrived.elapsed().as_millis() as u64,
            output_tokens = self.tokens.output,
            "request ended"
        );
        self.observers.decisions.push(Decided {
            at: Decided::wall_clock(),
            request_id: self.request_id.clone(),
            class: self.class.clone(),
            tenant: self.tenant.clone(),
            outcome,
            reason,
            queue_ms,
            prompt_tokens: self.tokens.prompt.unwrap_or(self.prompt_estimate),
            output_tokens: self.tokens.output,
        });
    }
}
