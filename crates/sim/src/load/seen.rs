//! What a client saw of one request.

use super::plan::Offered;
use std::time::Duration;

/// How a request ended, as far as its client can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The whole answer came.
    Completed,
    /// Fairtide refused it.
    Refused {
        /// How, in the words of outcomes.
        outcome: String,
        /// The limit or rule that decided.
        reason: String,
    },
    /// The client left: its patience was at an end, or the run was.
    Cancelled,
    /// Anything else: no connection, an error status, an answer that broke off.
    Failed(String),
}

/// One request, observed. Times are since the moment at which the plan wanted it sent, so that a
/// sender that falls behind shows in the figures instead of hiding there.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What was sent.
    pub offered: Offered,
    /// How it ended.
    pub end: End,
    /// When it ended.
    pub ended: Duration,
    /// When its first token came. An answer that isn't streamed comes all at once.
    pub first_token: Option<Duration>,
    /// When its last token came, so far.
    pub last_token: Option<Duration>,
    /// Tokens that came.
    pub tokens: u64,
    /// How long Fairtide says that it held it.
    pub queue_ms: Option<f64>,
}

// === impl Seen ===

impl Seen {
    /// A request of which nothing came yet.
    pub fn nothing(offered: Offered) -> Self {
        Self {
            offered,
            end: End::Cancelled,
            ended: Duration::ZERO,
            first_token: None,
            last_token: None,
            tokens: 0,
            queue_ms: None,
        }
    }

    /// Notes tokens that came.
    pub fn tokens(&mut self, count: u64, at: Duration) {
        if count > 0 {
            self.first_token.get_or_insert(at);
            self.last_token = Some(at);
            self.tokens += count;
        }
    }

    /// Mean time between its tokens; `None` where it has no two that came apart.
    pub fn tpot(&self) -> Option<Duration> {
        let gaps = u32::try_from(self.tokens).ok()?.checked_sub(1)?;
        let (first, last) = (self.first_token?, self.last_token?);
        (gaps > 0 && last > first).then(|| (last - first) / gaps)
    }

    /// Time to the first token. Of a request that was cancelled before, its age then: the true
    /// value is that or more, and leaving it out would hide the very requests that waited longest.
    /// `None` for requests that were refused or failed: they are counted as such.
    pub fn ttft_at_least(&self) -> Option<Duration> {
        match (self.first_token, &self.end) {
            (None, End::Cancelled) => Some(self.ended),
            (first, _) => first,
        }
    }

    /// Time to the end of the answer, or the age of a request that was cancelled.
    pub fn latency_at_least(&self) -> Option<Duration> {
        matches!(self.end, End::Completed | End::Cancelled).then_some(self.ended)
    }
}
