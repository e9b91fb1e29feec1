//! The one task that owns the [`Scheduler`].
//!
//! Connection tasks never touch the scheduler: they send what happens over a channel and get the
//! decision by a oneshot. So no lock is held while anybody waits, decisions fall in the order in
//! which things happened, and the core stays free of clocks: this task tells it the time.
//!
//! The channel is unbounded because its senders include `Drop`, which can't wait. What stands in
//! it is bounded by the connections: each has one arrival, one end and batched progress.

use fairtide_policy::Mode;
use fairtide_scheduler::{
    Decision, EngineFacts, Outcome, Reason, Refusal, Request, RequestId, Scheduler, Settings,
    Snapshot, Tokens,
};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::Instant,
};

/// Events that are taken in before decisions are made: a burst costs one round of decisions.
const EVENTS_PER_ROUND: usize = 256;

/// The shortest sleep: whatever the scheduler says, this task never spins.
const SHORTEST_SLEEP: Duration = Duration::from_micros(500);

/// What is said to requests under `Bypass`.
const PASS: Verdict = Verdict::Start {
    queued: Duration::ZERO,
    reason: Reason::PassThrough,
};

/// The way to the scheduler. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    events: mpsc::UnboundedSender<Event>,
    last_id: Arc<AtomicU64>,
}

/// What the scheduler decided on a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Send it to the engine; it counts as running until [`Admission::end`].
    Start { queued: Duration, reason: Reason },
    /// Refuse it; the scheduler has forgotten it.
    Refuse { queued: Duration, refusal: Refusal },
}

#[derive(Debug)]
enum Event {
    Arrive(Request, oneshot::Sender<Verdict>),
    Progress(RequestId, Tokens),
    End(RequestId, Outcome, Tokens),
    Apply(Box<Settings>, Binding, oneshot::Sender<()>),
    Engine(EngineFacts),
    Drain,
    Snapshot(oneshot::Sender<Snapshot>),
}

/// Whether decisions bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// What waits, waits.
    Enforced,
    /// Whatever waits is let go at once.
    Bypassed,
}

/// The task's own state.
struct Task {
    scheduler: Scheduler,
    binding: Binding,
    origin: Instant,
    /// Those who wait for a decision.
    waiting: HashMap<RequestId, oneshot::Sender<Verdict>>,
}

// === impl Binding ===

impl From<Mode> for Binding {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Enforce => Binding::Enforced,
            Mode::Bypass => Binding::Bypassed,
        }
    }
}

// === impl Admission ===

impl Admission {
    /// Starts the task. It ends when the last handle is dropped.
    pub(crate) fn spawn(settings: Settings, binding: Binding) -> (Self, JoinHandle<()>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let task = Task {
            scheduler: Scheduler::new(settings, Duration::ZERO),
            binding,
            origin: Instant::now(),
            waiting: HashMap::new(),
        };
        let admission = Self {
            events,
            last_id: Arc::default(),
        };
        (admission, tokio::spawn(task.run(receiver)))
    }

    /// A name for a request, never given twice.
    pub(crate) fn new_id(&self) -> RequestId {
        RequestId(self.last_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Waits until a request is started or refused. Whoever drops this future must tell
    /// [`Admission::end`] of it: the request may be queued or running by then.
    pub(crate) async fn admit(&self, request: Request) -> Verdict {
        let (reply, verdict) = oneshot::channel();
        let gone = Verdict::Refuse {
            queued: Duration::ZERO,
            refusal: Refusal {
                outcome: Outcome::Draining,
                reason: Reason::Drain,
                retry_after: None,
                storm: false,
            },
        };
        if self.events.send(Event::Arrive(request, reply)).is_err() {
            return gone;
        }
        verdict.await.unwrap_or(gone)
    }

    /// Tokens of a running request were seen.
    pub(crate) fn progress(&self, id: RequestId, tokens: Tokens) {
        let _ = self.events.send(Event::Progress(id, tokens));
    }

    /// A request is over, in whatever phase it was.
    pub(crate) fn end(&self, id: RequestId, outcome: Outcome, tokens: Tokens) {
        let _ = self.events.send(Event::End(id, outcome, tokens));
    }

    /// Puts another policy in force; returns when it is.
    pub(crate) async fn apply(&self, settings: Settings, binding: Binding) {
        let (reply, done) = oneshot::channel();
        let event = Event::Apply(Box::new(settings), binding, reply);
        if self.events.send(event).is_ok() {
            let _ = done.await;
        }
    }

    /// Takes note of what is known of the engine.
    pub(crate) fn set_engine(&self, facts: EngineFacts) {
        let _ = self.events.send(Event::Engine(facts));
    }

    /// New requests are refused from now on.
    pub(crate) fn drain(&self) {
        let _ = self.events.send(Event::Drain);
    }

    /// The scheduler's state at this moment.
    pub(crate) async fn snapshot(&self) -> Snapshot {
        let (reply, snapshot) = oneshot::channel();
        let _ = self.events.send(Event::Snapshot(reply));
        snapshot.await.unwrap_or_default()
    }
}

// === impl Task ===

impl Task {
    async fn run(mut self, mut events: mpsc::UnboundedReceiver<Event>) {
        let mut batch = Vec::with_capacity(EVENTS_PER_ROUND);
        loop {
            let now = self.now();
            while let Some(decision) = self.scheduler.poll(now) {
                self.announce(decision);
            }
            let wake_at = self.scheduler.wake_at(now);
            let woken = async {
                match wake_at {
                    Some(at) => {
                        let at = at.max(now + SHORTEST_SLEEP);
                        tokio::time::sleep_until(self.origin + at).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                received = events.recv_many(&mut batch, EVENTS_PER_ROUND) => {
                    if received == 0 {
                        return;
                    }
                }
                () = woken => {}
            }
            for event in batch.drain(..) {
                self.take(event);
            }
        }
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn take(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Arrive(request, reply) => self.arrive(request, reply, now),
            Event::Progress(id, tokens) => self.scheduler.progress(id, tokens, now),
            Event::End(id, outcome, tokens) => {
                self.waiting.remove(&id);
                self.scheduler.end(id, outcome, tokens, now);
            }
            Event::Apply(settings, binding, done) => {
                self.scheduler.apply(*settings, now);
                let before = std::mem::replace(&mut self.binding, binding);
                match binding {
                    Binding::Bypassed => self.let_all_go(now),
                    Binding::Enforced if before == Binding::Bypassed => {
                        self.scheduler.restart_headroom(now);
                    }
                    Binding::Enforced => {}
                }
                let _ = done.send(());
            }
            Event::Engine(facts) => self.scheduler.set_engine(facts, now),
            Event::Drain => self.scheduler.drain(),
            Event::Snapshot(reply) => {
                let _ = reply.send(self.scheduler.snapshot(now));
            }
        }
    }

    fn arrive(&mut self, request: Request, reply: oneshot::Sender<Verdict>, now: Duration) {
        let id = request.id;
        // Its body was still being read when the policy changed.
        if self.binding == Binding::Bypassed {
            let _ = reply.send(PASS);
            return;
        }
        match self.scheduler.enqueue(request, now) {
            Ok(()) => {
                self.waiting.insert(id, reply);
            }
            Err(refusal) => {
                let queued = Duration::ZERO;
                let _ = reply.send(Verdict::Refuse { queued, refusal });
            }
        }
    }

    /// Passes a decision on. Nobody may be there to hear it: then the end of the request is on its
    /// way in the channel, since its guard is gone.
    fn announce(&mut self, decision: Decision) {
        let (id, verdict) = match decision {
            Decision::Start { id, queued, reason } => (id, Verdict::Start { queued, reason }),
            Decision::Refuse {
                id,
                queued,
                refusal,
            } => (id, Verdict::Refuse { queued, refusal }),
        };
        if let Some(reply) = self.waiting.remove(&id) {
            let _ = reply.send(verdict);
        }
    }

    /// Under `Bypass` nobody waits: the queued ones go to the engine, and no longer count here.
    fn let_all_go(&mut self, now: Duration) {
        for (id, reply) in self.waiting.drain() {
            self.scheduler
                .end(id, Outcome::CancelledQueued, Tokens::default(), now);
            let _ = reply.send(PASS);
        }
    }
}
