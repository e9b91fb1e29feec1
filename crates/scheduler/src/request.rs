//! What the scheduler is told of a request, and what it answers.

use crate::{Outcome, Reason};
use std::{sync::Arc, time::Duration};

/// Names a request from arrival to outcome. Never used twice by one scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A request as it arrives.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// Class name. One that no longer exists counts as the default class.
    pub class: Arc<str>,
    /// Tenant key; equal keys share one queue and one counter within their class.
    pub tenant: Arc<str>,
    /// Tokens of the prompt, estimated until the engine tells.
    pub prompt_tokens: u64,
    /// The largest explicit output cap times the number of answers asked for; `None`: not given.
    pub output_cap: Option<u64>,
    /// Whether the answer is streamed, so that its tokens are seen as they come. Otherwise the
    /// scheduler accrues them by time until the end.
    pub streamed: bool,
    /// Bytes of the body that is held while the request is queued.
    pub body_bytes: u64,
}

/// Tokens of a running request, as far as they are known. Counts are totals, not increments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Prompt tokens by the engine's own count.
    pub prompt: Option<u64>,
    /// Prompt tokens that a prefix cache saved.
    pub cached: Option<u64>,
    /// Output tokens so far.
    pub output: Option<u64>,
}

/// What is to be done with a queued request.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Send it to the engine. The permit is held until [`crate::Scheduler::end`].
    Start {
        /// Which.
        id: RequestId,
        /// How long it was queued.
        queued: Duration,
        /// The clause that let it start.
        reason: Reason,
    },
    /// Refuse it. It is forgotten; no `end` follows.
    Refuse {
        /// Which.
        id: RequestId,
        /// How long it was queued.
        queued: Duration,
        /// Why.
        refusal: Refusal,
    },
}

/// A request that the scheduler won't serve.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{outcome} ({reason})")]
pub struct Refusal {
    /// How the request ends.
    pub outcome: Outcome,
    /// The limit that refused.
    pub reason: Reason,
    /// When a retry may succeed, by the limit that refused; without jitter or rounding.
    /// `None`: never, as the request is.
    pub retry_after: Option<Duration>,
    /// Over half of the class's requests are refused of late: a retry storm would help nobody.
    pub storm: bool,
}
