//! One request inside the engine.

use super::profile::BLOCK_TOKENS;
use std::time::Duration;

/// Names a request of one engine. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u64);

/// A request as the engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Its name.
    pub id: SequenceId,
    /// Tokens of the prompt, at least 1.
    pub prompt_tokens: u64,
    /// Tokens of the prompt, fewer than all, that a prefix cache spares; 0 of none.
    pub cached_tokens: u64,
    /// Tokens that it generates, at least 1; exactly so many, as with `ignore_eos`.
    pub output_tokens: u64,
    /// Lower goes first; ignored by an engine that serves first come, first served.
    pub priority: i64,
}

/// Where a waiting sequence stands in the queue: by priority, then by arrival. A preempted
/// sequence keeps its arrival and so comes back before all who came later.
pub(super) type Place = (i64, u64);

/// A request that waits or runs.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub prompt: Prompt,
    pub place: Place,
    pub arrived: Duration,
    /// Its first step began; later ones, after a preemption, don't count as queueing.
    pub started: Option<Duration>,
    pub first_token: Option<Duration>,
    pub last_token: Option<Duration>,
    pub generated: u64,
    /// Tokens, of prompt and output, whose keys and values are in the cache.
    pub computed: u64,
    /// Tokens that the step in progress computes.
    pub scheduled: u64,
    /// KV blocks that it holds.
    pub blocks: u64,
    pub preemptions: u64,
}

// === impl Sequence ===

impl Sequence {
    pub fn new(prompt: Prompt, place: Place, arrived: Duration) -> Self {
        Self {
            prompt,
            place,
            arrived,
            started: None,
            first_token: None,
            last_token: None,
            generated: 0,
            // The last token of a prompt is always computed: the first of the answer needs it.
            computed: prompt
                .cached_tokens
                .min(prompt.prompt_tokens.saturating_sub(1)),
            scheduled: 0,
            blocks: 0,
            preemptions: 0,
        }
    }

    /// Tokens that must be computed before the next one can be generated: one while it decodes,
    /// its prompt (after a preemption: and all it had generated) otherwise.
    pub fn uncomputed(&self) -> u64 {
        self.prompt.prompt_tokens + self.generated - self.computed
    }

    /// Whether its next token needs nothing but the one before it.
    pub fn decodes(&self) -> bool {
        self.generated > 0 && self.uncomputed() == 1
    }

    /// Blocks that it lacks in order to compute so many more tokens.
    pub fn blocks_lacking(&self, tokens: u64) -> u64 {
        (self.computed + tokens)
            .div_ceil(BLOCK_TOKENS)
            .saturating_sub(self.blocks)
    }

    pub fn is_finished(&self) -> bool {
        self.generated == self.prompt.output_tokens
    }
}
