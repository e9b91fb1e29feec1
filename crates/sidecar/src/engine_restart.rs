//! The engine's container is restarted alone, as its liveness probe or a crash may have it: the
//! engine's hook asks `/drain/wait` although the pod isn't going away.
//!
//! Then nothing is started until the engine is back: what waits is held in the queue, what runs is
//! given a moment to end. Anybody on the network can make the same request, so what it may do is
//! bounded: streams are never cut, requests wait some seconds more, and if the engine never went
//! away after it, further calls do nothing for a while.

use crate::{admission::Admission, lifecycle::Lifecycle, readiness::EngineState};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// What running requests are given to end. A liveness probe has failed: the engine hangs, or is so
/// slow that nobody waits for it.
const FINISH: Duration = Duration::from_secs(5);

/// An engine that hasn't gone away by then, after its hook was let go, isn't restarted.
const GO_AWAY: Duration = Duration::from_secs(5);

/// After a false alarm.
const COOL_DOWN: Duration = Duration::from_secs(600);

/// How often it is looked whether all has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Clone)]
pub(crate) struct EngineRestart {
    admission: Admission,
    lifecycle: Arc<Lifecycle>,
    engine: watch::Receiver<EngineState>,
    state: watch::Sender<Restart>,
    false_alarm: Arc<Mutex<Option<Instant>>>,
}

/// How far a restart is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    None,
    /// Running requests end.
    Finishing,
    /// The hook was let go.
    Away,
}

// === impl EngineRestart ===

impl EngineRestart {
    pub(crate) fn new(
        admission: Admission,
        lifecycle: Arc<Lifecycle>,
        engine: watch::Receiver<EngineState>,
    ) -> Self {
        Self {
            admission,
            lifecycle,
            engine,
            state: watch::Sender::new(Restart::None),
            false_alarm: Arc::default(),
        }
    }

    /// Whether starts are held.
    pub(crate) fn is_on(&self) -> bool {
        *self.state.borrow() != Restart::None
    }

    /// The hook asks: returns when the engine may be stopped.
    pub(crate) async fn asked(&self) {
        let mut begins = false;
        let cool = |at: &Option<Instant>| at.is_some_and(|at| at.elapsed() < COOL_DOWN);
        if !cool(&self.false_alarm.lock()) {
            self.state.send_if_modified(|state| {
                begins = *state == Restart::None;
                if begins {
                    *state = Restart::Finishing;
                }
                begins
            });
        }
        if begins {
            // Whoever asked may hang up; this goes on.
            tokio::spawn(self.clone().lead());
        }
        let mut states = self.state.subscribe();
        let _ = states.wait_for(|state| *state != Restart::Finishing).await;
    }

    async fn lead(self) {
        tracing::info!("the engine's hook asks to stop it alone; starts are held");
        self.admission.hold(true);
        tokio::select! {
            () = self.idle() => {}
            () = tokio::time::sleep(FINISH) => {}
            _ = self.lifecycle.begun() => {}
        }
        self.state.send_replace(Restart::Away);
        tokio::select! {
            () = self.back() => {}
            _ = self.lifecycle.begun() => {}
        }
        self.admission.hold(false);
        self.state.send_replace(Restart::None);
        tracing::info!("starts are held no longer");
    }

    async fn idle(&self) {
        while self.admission.snapshot().await.in_flight > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until the engine went away and came back, or never went.
    async fn back(&self) {
        let mut engine = self.engine.clone();
        let down = engine.wait_for(EngineState::is_down);
        let went = tokio::time::timeout(GO_AWAY, down).await.is_ok();
        if went {
            let _ = engine.wait_for(EngineState::is_ready).await;
        } else {
            tracing::warn!("the engine didn't stop: whoever asked was not its hook");
            *self.false_alarm.lock() = Some(Instant::now());
        }
    }
}
