//! The one task that owns the [`Scheduler`]s: one for each engine port of the pod. What they share
//! (buckets, the counters of fairness) it hands from one to the others.
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
    /// The port that this handle speaks of.
    port: usize,
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
    Arrive(usize, Request, oneshot::Sender<Verdict>),
    Pass(usize, Request),
    Progress(usize, RequestId, Tokens),
    End(usize, RequestId, Outcome, Tokens),
    Apply(Box<Settings>, Binding, oneshot::Sender<()>),
    Engine(usize, EngineFacts),
    Hold(bool),
    Close(Duration),
    Reopen,
    UsualStay(oneshot::Sender<Option<Duration>>),
    Snapshot(oneshot::Sender<Vec<Snapshot>>),
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
    /// One for each engine port.
    ports: Vec<Scheduler>,
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
    /// Starts the task for so many engine ports. It ends when the last handle is dropped.
    pub(crate) fn spawn(
        settings: Settings,
        binding: Binding,
        ports: usize,
    ) -> (Self, JoinHandle<()>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let settings = of_one_port(settings, ports);
        let schedulers = (0..ports).map(|_| {
            let mut scheduler = Scheduler::new(settings.clone(), Duration::ZERO);
            if ports > 1 {
                scheduler.share();
            }
            scheduler
        });
        let task = Task {
            ports: schedulers.collect(),
            binding,
            origin: Instant::now(),
            waiting: HashMap::new(),
        };
        let admission = Self {
            events,
            port: 0,
            last_id: Arc::default(),
        };
        (admission, tokio::spawn(task.run(receiver)))
    }

    /// The same, of another port.
    pub(crate) fn of_port(&self, port: usize) -> Self {
        Self {
            port,
            ..self.clone()
        }
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
        if self
            .events
            .send(Event::Arrive(self.port, request, reply))
            .is_err()
        {
            return gone;
        }
        verdict.await.unwrap_or(gone)
    }

    /// A request goes to the engine by no decision; it counts as running until
    /// [`Admission::end`].
    pub(crate) fn pass(&self, request: Request) {
        let _ = self.events.send(Event::Pass(self.port, request));
    }

    /// Tokens of a running request were seen.
    pub(crate) fn progress(&self, id: RequestId, tokens: Tokens) {
        let _ = self.events.send(Event::Progress(self.port, id, tokens));
    }

    /// A request is over, in whatever phase it was.
    pub(crate) fn end(&self, id: RequestId, outcome: Outcome, tokens: Tokens) {
        let _ = self.events.send(Event::End(self.port, id, outcome, tokens));
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
        let _ = self.events.send(Event::Engine(self.port, facts));
    }

    /// While held, nothing starts.
    pub(crate) fn hold(&self, held: bool) {
        let _ = self.events.send(Event::Hold(held));
    }

    /// New requests are refused from now on, and those that won't start within this time.
    pub(crate) fn close(&self, starts_within: Duration) {
        let _ = self.events.send(Event::Close(starts_within));
    }

    /// New requests are taken again.
    pub(crate) fn reopen(&self) {
        let _ = self.events.send(Event::Reopen);
    }

    /// How long half of the last requests took in the engine.
    pub(crate) async fn usual_stay(&self) -> Option<Duration> {
        let (reply, stay) = oneshot::channel();
        let _ = self.events.send(Event::UsualStay(reply));
        stay.await.ok().flatten()
    }

    /// The pod's state at this moment.
    pub(crate) async fn snapshot(&self) -> Snapshot {
        Snapshot::together(&self.snapshots().await)
    }

    /// The same by port.
    pub(crate) async fn snapshots(&self) -> Vec<Snapshot> {
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
            self.decide(now);
            let wakes = self.ports.iter().filter_map(|port| port.wake_at(now));
            let wake_at = wakes.min();
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

    /// Until nothing is due. Ports take turns, so that none takes all of a bucket they share.
    fn decide(&mut self, now: Duration) {
        loop {
            let mut decided = false;
            for port in 0..self.ports.len() {
                if let Some(decision) = self.ports[port].poll(now) {
                    self.announce(decision);
                    decided = true;
                }
                self.share(port, now);
            }
            if !decided {
                return;
            }
        }
    }

    /// Tells the other ports what one has taken of what all share.
    fn share(&mut self, from: usize, now: Duration) {
        if self.ports.len() == 1 {
            return;
        }
        for charge in self.ports[from].charges() {
            let others = self.ports.iter_mut().enumerate();
            for (_, other) in others.filter(|(port, _)| *port != from) {
                other.charged_elsewhere(&charge, now);
            }
        }
    }

    fn take(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Arrive(port, request, reply) => self.arrive(port, request, reply, now),
            Event::Pass(port, request) => self.ports[port].pass(request, now),
            Event::Progress(port, id, tokens) => {
                self.ports[port].progress(id, tokens, now);
                self.share(port, now);
            }
            Event::End(port, id, outcome, tokens) => {
                self.waiting.remove(&id);
                self.ports[port].end(id, outcome, tokens, now);
                self.share(port, now);
            }
            Event::Apply(settings, binding, done) => {
                let settings = of_one_port(*settings, self.ports.len());
                for port in &mut self.ports {
                    port.apply(settings.clone(), now);
                }
                let before = std::mem::replace(&mut self.binding, binding);
                match binding {
                    Binding::Bypassed => self.let_all_go(now),
                    Binding::Enforced if before == Binding::Bypassed => {
                        for port in &mut self.ports {
                            port.restart_headroom(now);
                        }
                    }
                    Binding::Enforced => {}
                }
                let _ = done.send(());
            }
            Event::Engine(port, facts) => self.ports[port].set_engine(facts, now),
            Event::Hold(held) => self.ports.iter_mut().for_each(|port| port.hold(held)),
            Event::Close(within) => {
                for port in &mut self.ports {
                    port.close(within, now);
                }
            }
            Event::Reopen => self.ports.iter_mut().for_each(Scheduler::reopen),
            Event::UsualStay(reply) => {
                let stays = self.ports.iter().filter_map(Scheduler::usual_stay);
                let _ = reply.send(stays.max());
            }
            Event::Snapshot(reply) => {
                let snapshots = self.ports.iter().map(|port| port.snapshot(now));
                let _ = reply.send(snapshots.collect());
            }
        }
    }

    fn arrive(
        &mut self,
        port: usize,
        request: Request,
        reply: oneshot::Sender<Verdict>,
        now: Duration,
    ) {
        let id = request.id;
        // Its body was still being read when the policy changed.
        if self.binding == Binding::Bypassed {
            self.ports[port].pass(request, now);
            let _ = reply.send(PASS);
            return;
        }
        if self.ports.len() > 1 {
            let others = self.ports.iter().enumerate();
            let others = others.filter(|(other, _)| *other != port);
            let queued = others.map(|(_, other)| other.queued_reserve(&request.class));
            let queued = queued.sum();
            self.ports[port].queued_elsewhere(&request.class, queued);
        }
        match self.ports[port].enqueue(request, now) {
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

    /// Under `Bypass` nobody waits: the queued ones go to the engine.
    fn let_all_go(&mut self, now: Duration) {
        for port in &mut self.ports {
            for id in port.let_all_go(now) {
                if let Some(reply) = self.waiting.remove(&id) {
                    let _ = reply.send(PASS);
                }
            }
        }
    }
}

/// Limits are each port's own, but the memory of the pod is one.
fn of_one_port(settings: Settings, ports: usize) -> Settings {
    Settings {
        max_queued_bytes: settings.max_queued_bytes / ports.max(1) as u64,
        ..settings
    }
}
