//! What a request is taken for before the engine has counted it.
//!
//! Prompt tokens are bytes of text times a ratio that the engine's own `usage` teaches; it starts
//! at 0.25, which is English with most tokenisers. The ratio is one of decayed sums, not a mean of
//! ratios: short prompts, in which the chat template weighs most, must not speak for long ones.

use fairtide_engine::{JsonBody, PromptSize};
use parking_lot::Mutex;

/// Tokens per byte while nothing is known.
const TOKENS_PER_BYTE: f64 = 0.25;

/// How many bytes the starting ratio weighs: a few prompts outvote it.
const STARTING_BYTES: f64 = 4096.0;

/// What each new answer takes off the weight of those before: the last hundred or so count.
const DECAY: f64 = 0.99;

/// Prompt tokens of a body that can't be read, at most. Its size says little: it may be audio.
const UNREADABLE_TOKENS: u64 = 1024;

/// What the answers of this pod taught.
#[derive(Debug)]
pub(crate) struct Learned(Mutex<Sums>);

#[derive(Debug)]
struct Sums {
    prompt_tokens: f64,
    prompt_bytes: f64,
    output_tokens: f64,
    output_events: f64,
}

/// What a body asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) prompt_tokens: u64,
    pub(crate) output_cap: Option<u64>,
    pub(crate) streamed: bool,
    /// The text behind `prompt_tokens`, where text is all that there is: what can be learned from.
    pub(crate) text_bytes: Option<u64>,
}

// === impl Learned ===

impl Default for Learned {
    fn default() -> Self {
        Self(Mutex::new(Sums {
            prompt_tokens: TOKENS_PER_BYTE * STARTING_BYTES,
            prompt_bytes: STARTING_BYTES,
            output_tokens: 100.0,
            output_events: 100.0,
        }))
    }
}

impl Learned {
    /// Tokens per byte of prompt text.
    pub(crate) fn tokens_per_byte(&self) -> f64 {
        let sums = self.0.lock();
        // No tokeniser is beyond these: a strange `usage` must not run away with the ratio.
        (sums.prompt_tokens / sums.prompt_bytes).clamp(0.05, 2.0)
    }

    /// Tokens per output event of a stream.
    pub(crate) fn tokens_per_event(&self) -> f64 {
        let sums = self.0.lock();
        (sums.output_tokens / sums.output_events).clamp(0.5, 64.0)
    }

    /// The engine counted so many tokens in a prompt of so many bytes.
    pub(crate) fn prompt(&self, bytes: u64, tokens: u64) {
        if bytes == 0 {
            return;
        }
        let mut sums = self.0.lock();
        sums.prompt_tokens = sums.prompt_tokens * DECAY + tokens as f64;
        sums.prompt_bytes = sums.prompt_bytes * DECAY + bytes as f64;
    }

    /// The engine counted so many tokens in so many events.
    pub(crate) fn stream(&self, events: u64, tokens: u64) {
        let mut sums = self.0.lock();
        sums.output_tokens = sums.output_tokens * DECAY + tokens as f64;
        sums.output_events = sums.output_events * DECAY + events as f64;
    }

    /// What a request asks for; `size` is that of its body.
    pub(crate) fn estimate(&self, body: Option<&JsonBody<'_>>, size: u64) -> Estimate {
        let Some(body) = body else {
            return Estimate {
                prompt_tokens: (size / 4).clamp(1, UNREADABLE_TOKENS),
                output_cap: None,
                streamed: false,
                text_bytes: None,
            };
        };
        let prompt: PromptSize = body.prompt();
        let only_text = prompt.token_ids == 0 && prompt.media == 0;
        Estimate {
            prompt_tokens: prompt.tokens(self.tokens_per_byte()),
            output_cap: body.output_cap(),
            streamed: body.is_streamed(),
            text_bytes: only_text.then_some(prompt.text_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_teaches_the_size_of_prompts() {
        let learned = Learned::default();
        let text = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(4000));
        let estimate = |learned: &Learned| {
            let body = JsonBody::parse(text.as_bytes());
            learned
                .estimate(body.as_ref(), text.len() as u64)
                .prompt_tokens
        };
        assert_eq!(estimate(&learned), 1000);
        for _ in 0..100 {
            learned.prompt(4000, 2000);
        }
        assert!((1900..=2000).contains(&estimate(&learned)));
        // A short prompt with a long template says little about long ones.
        learned.prompt(10, 40);
        assert!(estimate(&learned) < 2010);
    }

    #[test]
    fn a_body_that_cannot_be_read_is_no_megabyte_of_tokens() {
        let estimate = Learned::default().estimate(None, 25 << 20);
        assert_eq!(estimate.prompt_tokens, UNREADABLE_TOKENS);
        assert_eq!(Learned::default().estimate(None, 0).prompt_tokens, 1);
    }

    #[test]
    fn events_of_several_tokens_are_learned() {
        let learned = Learned::default();
        for _ in 0..500 {
            learned.stream(10, 40);
        }
        assert!((3.8..=4.0).contains(&learned.tokens_per_event()));
    }
}
