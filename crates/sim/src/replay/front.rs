//! What stands before an engine: Fairtide's scheduler, or one of the rivals that it is measured
//! against. Each is told the same things, and answers what to start and what to refuse.

mod banded;
mod capped;
mod drr;
mod fairtide;
mod passing;

pub(super) use banded::Banded;
pub(super) use capped::Capped;
pub(super) use drr::Drr;
pub(super) use fairtide::Fairtide;
pub(super) use passing::Passing;

use std::{sync::Arc, time::Duration};

/// A request as a front sees it: not how long its answer will be.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub id: u64,
    pub class: Arc<str>,
    pub interactive: bool,
    /// Of its class; higher goes first.
    pub priority: i32,
    pub tenant: Arc<str>,
    pub prompt_tokens: u64,
}

/// A token came out of the engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub id: u64,
    /// Of its answer, so far.
    pub output_tokens: u64,
    /// Since the token before it; `None` for the first one.
    pub gap: Option<Duration>,
}

/// An answer is complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub id: u64,
    pub interactive: bool,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
}

/// What to do with a request that was queued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Start(u64),
    Refuse(u64, Why),
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Why {
    /// In the words of outcomes.
    pub outcome: &'static str,
    /// The limit or rule that decided.
    pub reason: &'static str,
}

/// A policy at one engine.
pub(super) trait Front {
    fn arrive(&mut self, asked: Asked, now: Duration);
    /// Called for each token.
    fn token(&mut self, _came: Came, _now: Duration) {}
    fn done(&mut self, done: Done, now: Duration);
    /// How many requests it lets into the engine at once; `None`: it has no such limit.
    fn limit(&self) -> Option<f64> {
        None
    }
    /// What is due; called until it says `None`.
    fn poll(&mut self, now: Duration) -> Option<Verdict>;
    /// When to poll although nothing happened.
    fn wake_at(&self, _now: Duration) -> Option<Duration> {
        None
    }
}
