//! Where the pod is on its way out, for all who must know.
//!
//! ```text
//! serving → lame duck   it was told to end, but is still routed to: all goes on as before
//!         → closing     not ready; new requests are refused, what is there is finished
//!         → drained     nothing is left, or the time was up
//! ```

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Serving,
    LameDuck,
    Closing,
    Drained,
}

/// How the pod's end is spent.
#[derive(Clone, Copy, Debug)]
pub struct DrainPlan {
    /// From being told to the kill.
    pub grace: Duration,
    /// How long the pod goes on as before, since it is still routed to.
    pub lame_duck: Duration,
    /// What is left for others at the end of `grace`.
    pub kept_back: Duration,
}

/// The shared state.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    phase: watch::Sender<Phase>,
    /// The same, for those who look at each request.
    quick: AtomicU8,
    /// When the pod was told to end.
    begun: watch::Sender<Option<Instant>>,
    /// Whether this process was told to go.
    told_to_go: CancellationToken,
    /// For the requests that run now. Renewed if the pod lives on.
    time_up: ArcSwap<TimeUp>,
    /// What the phases took, for the log.
    since: Mutex<Instant>,
}

/// That running requests are out of time.
#[derive(Debug, Default)]
pub(crate) struct TimeUp {
    /// The token's own state is behind a lock, too dear for each piece of each stream.
    is_up: AtomicBool,
    token: CancellationToken,
}

// === impl TimeUp ===

impl TimeUp {
    pub(crate) fn tell(&self) {
        self.is_up.store(true, Ordering::Release);
        self.token.cancel();
    }

    pub(crate) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }
}

// === impl Phase ===

impl Phase {
    pub(crate) const ALL: [Phase; 4] = [
        Phase::Serving,
        Phase::LameDuck,
        Phase::Closing,
        Phase::Drained,
    ];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Phase::Serving => "serving",
            Phase::LameDuck => "lame_duck",
            Phase::Closing => "closing",
            Phase::Drained => "drained",
        }
    }
}

// === impl DrainPlan ===

impl DrainPlan {
    /// All of the time for requests, and no lame duck: nobody routes to a sidecar that was
    /// started by hand.
    pub fn at_once(time: Duration) -> Self {
        Self {
            grace: time,
            lame_duck: Duration::ZERO,
            kept_back: Duration::ZERO,
        }
    }

    /// How long requests may take to end.
    pub(crate) fn time(&self) -> Duration {
        self.grace.saturating_sub(self.kept_back)
    }

    /// The lame duck, if the grace period has room for it.
    pub(crate) fn lame_duck(&self) -> Duration {
        self.lame_duck.min(self.time() / 2)
    }
}

// === impl Lifecycle ===

impl Lifecycle {
    pub(crate) fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Serving),
            quick: AtomicU8::new(0),
            begun: watch::Sender::new(None),
            told_to_go: CancellationToken::new(),
            time_up: ArcSwap::default(),
            since: Mutex::new(Instant::now()),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.quick.load(Ordering::Relaxed)).min(3)]
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.quick.store(phase as u8, Ordering::Relaxed);
        self.phase.send_replace(phase);
        let before = std::mem::replace(&mut *self.since.lock(), Instant::now());
        let after_ms = before.elapsed().as_millis() as u64;
        tracing::info!(phase = phase.word(), after_ms, "the pod's phase");
    }

    /// Waits for a phase, or a later one.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut phases = self.phase.subscribe();
        let _ = phases.wait_for(|now| *now >= phase).await;
    }

    /// The pod is told to end; the first word counts.
    pub(crate) fn begin(&self, at: Instant) {
        self.begun.send_if_modified(|begun| {
            let first = begun.is_none();
            begun.get_or_insert(at);
            first
        });
    }

    /// Waits until the pod is told to end, and says when that was.
    pub(crate) async fn begun(&self) -> Instant {
        let mut begun = self.begun.subscribe();
        let at = begun.wait_for(Option::is_some).await;
        at.ok().and_then(|at| *at).unwrap_or_else(Instant::now)
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.borrow().is_some()
    }

    /// This process is told to go.
    pub(crate) fn go(&self) {
        self.begin(Instant::now());
        self.told_to_go.cancel();
    }

    pub(crate) fn told_to_go(&self) -> &CancellationToken {
        &self.told_to_go
    }

    /// For those requests that run now.
    pub(crate) fn time_up(&self) -> Arc<TimeUp> {
        self.time_up.load_full()
    }

    /// The pod lives on.
    pub(crate) fn resume(&self) {
        self.time_up.store(Arc::default());
        self.begun.send_replace(None);
        self.enter(Phase::Serving);
    }
}
