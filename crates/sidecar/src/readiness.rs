//! Whether the engine is ready, as the sidecar's own readiness says it.
//!
//! A busy engine answers its health check late, sometimes not for many seconds. If that made the
//! pod unready, its load would go to the next, which would become unready in turn. So a late
//! answer counts for nothing while tokens flow, and for half a minute after the last good one. A
//! refused connection or a wrong answer counts at once.

use crate::checks::{Answer, Check};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

/// The pause between two looks. So what is shown is never older than this and one answer.
const LOOK_EVERY: Duration = Duration::from_millis(900);

/// An engine that answered well within this time is ready although it is late now.
const PATIENCE: Duration = Duration::from_secs(30);

/// Likewise one whose answers to clients moved within this time.
const PROGRESS: Duration = Duration::from_secs(10);

/// When anything last came from the engine to a client.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    origin: Instant,
    /// Milliseconds after `origin`, and one; 0: never.
    beat: Arc<AtomicU64>,
}

/// How the engine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineState {
    /// Not asked yet.
    Unknown,
    /// Ready.
    Ready,
    /// Late, but alive.
    Busy,
    /// Not ready, and why.
    Down(String),
}

/// Decides by the answers.
#[derive(Debug)]
struct Judge {
    last_good: Option<Instant>,
}

// === impl Pulse ===

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            beat: Arc::default(),
        }
    }

    pub(crate) fn beat(&self) {
        let now = self.origin.elapsed().as_millis() as u64;
        self.beat.store(now + 1, Ordering::Relaxed);
    }

    fn within(&self, span: Duration) -> bool {
        let beat = self.beat.load(Ordering::Relaxed);
        let now = self.origin.elapsed().as_millis() as u64;
        beat > 0 && now.saturating_sub(beat - 1) <= span.as_millis() as u64
    }
}

// === impl EngineState ===

impl EngineState {
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self, Self::Ready | Self::Busy)
    }

    pub(crate) fn is_down(&self) -> bool {
        matches!(self, Self::Down(_))
    }

    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ready => "ready",
            Self::Busy => "busy",
            Self::Down(_) => "down",
        }
    }
}

// === impl Judge ===

impl Judge {
    fn judge(&mut self, answer: Answer, pulse: &Pulse) -> EngineState {
        match answer {
            Answer::Good => {
                self.last_good = Some(Instant::now());
                EngineState::Ready
            }
            Answer::Bad(why) => {
                self.last_good = None;
                EngineState::Down(why)
            }
            Answer::Late => match self.last_good {
                Some(at) if at.elapsed() < PATIENCE || pulse.within(PROGRESS) => EngineState::Busy,
                _ => EngineState::Down("its health check gets no answer".to_owned()),
            },
        }
    }
}

/// Asks for as long as the process lives. All checks must be good.
pub(crate) async fn watch(checks: Vec<Check>, pulse: Pulse, shown: watch::Sender<EngineState>) {
    let mut judges: Vec<_> = checks.iter().map(|_| Judge { last_good: None }).collect();
    loop {
        let mut state = EngineState::Ready;
        for (check, judge) in checks.iter().zip(&mut judges) {
            let one = judge.judge(check.ask().await, &pulse);
            match (&state, &one) {
                (EngineState::Down(_), _) | (_, EngineState::Ready) => {}
                _ => state = one,
            }
        }
        // One line for each change, not for each look.
        shown.send_if_modified(|old| {
            if *old == state {
                return false;
            }
            match &state {
                EngineState::Down(why) if !old.is_down() => {
                    tracing::warn!(why, "the engine is not ready");
                }
                EngineState::Ready | EngineState::Busy if !old.is_ready() => {
                    tracing::info!("the engine is ready");
                }
                _ => tracing::debug!(?state, "engine"),
            }
            *old = state;
            true
        });
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The answer to one of the kubelet's own questions about the engine. A busy engine is alive.
pub(crate) async fn answer_kubelet(check: &Check, pulse: &Pulse) -> Answer {
    match check.ask().await {
        Answer::Late if pulse.within(PROGRESS) => Answer::Good,
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_busy_engine_stays_ready_and_a_refusal_counts_at_once() {
        let pulse = Pulse::new();
        let mut judge = Judge { last_good: None };
        let late = judge.judge(Answer::Late, &pulse);
        assert!(late.is_down(), "it never was ready: {late:?}");
        assert!(judge.judge(Answer::Good, &pulse).is_ready());
        for _ in 0..29 {
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(judge.judge(Answer::Late, &pulse), EngineState::Busy);
        }
        // Tokens flow: for as long as they do.
        for _ in 0..100 {
            tokio::time::advance(Duration::from_secs(5)).await;
            pulse.beat();
            assert_eq!(judge.judge(Answer::Late, &pulse), EngineState::Busy);
        }
        assert!(judge.judge(Answer::Bad("refused".into()), &pulse).is_down());
        assert!(judge.judge(Answer::Late, &pulse).is_down());
        assert!(judge.judge(Answer::Good, &pulse).is_ready());
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(judge.judge(Answer::Late, &pulse).is_down(), "hung");
    }
}
