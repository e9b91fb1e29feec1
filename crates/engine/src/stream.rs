//! Counts the tokens of a streamed answer beside the forwarded bytes.
//!
//! Tokens are counted as events, never as network chunks (which cut anywhere) and never by text
//! (a token in the middle of a character has none). Where the engine states `usage`, that wins;
//! else events count, times the tokens per event that other streams' `usage` taught. An event that
//! can't be read counts as one: the stream itself is never touched.

mod event;
mod lines;

use crate::Usage;
use event::{Choice, Event};
use lines::{Block, Events};

/// Watches one `text/event-stream` body.
#[derive(Debug, Default)]
pub struct StreamMeter {
    events: Events,
    seen: Seen,
}

#[derive(Debug, Default)]
struct Seen {
    /// Output events, over all choices.
    output_events: u64,
    /// The latest statement of the engine.
    usage: Usage,
    /// `output_events` when `usage.output` was stated.
    usage_at: u64,
    /// More than one choice: a usage within the stream is then that of one choice only.
    several: bool,
    error: Option<String>,
    done: bool,
}

// === impl StreamMeter ===

impl StreamMeter {
    /// The next bytes of the stream, cut anywhere. Returns how many output events ended in them.
    pub fn push(&mut self, bytes: &[u8]) -> u64 {
        let before = self.seen.output_events;
        let seen = &mut self.seen;
        self.events.push(bytes, |block| seen.block(block));
        self.seen.output_events - before
    }

    /// The stream has ended: a last event without its blank line still counts, if it is readable.
    pub fn finish(&mut self) {
        let seen = &mut self.seen;
        self.events.finish(|block| seen.block(block));
    }

    /// Output events so far: each is about one token. The role event, events that only state
    /// usage, comments and `[DONE]` don't count.
    pub fn output_events(&self) -> u64 {
        self.seen.output_events
    }

    /// Tokens generated so far, where an event stands for `tokens_per_event` tokens.
    pub fn output_tokens(&self, tokens_per_event: f64) -> u64 {
        let since = self.seen.output_events.saturating_sub(self.seen.usage_at);
        let stated = self.seen.usage.output.unwrap_or(0);
        stated + (since as f64 * tokens_per_event).round() as u64
    }

    /// What the engine stated of the request so far.
    pub fn usage(&self) -> Usage {
        self.seen.usage
    }

    /// Tokens per event of this stream, if the engine stated the tokens of all its events.
    pub fn tokens_per_event(&self) -> Option<f64> {
        let stated = self.seen.usage.output?;
        let all = self.seen.usage_at == self.seen.output_events && self.seen.output_events > 0;
        all.then(|| stated as f64 / self.seen.output_events as f64)
    }

    /// The engine's own words where it reported an error inside the stream, although the status
    /// was 200, or aborted the generation.
    pub fn error(&self) -> Option<&str> {
        self.seen.error.as_deref()
    }

    /// `[DONE]` was seen: the generation is over, also if the connection stays open.
    pub fn is_done(&self) -> bool {
        self.seen.done
    }
}

// === impl Seen ===

impl Seen {
    fn block(&mut self, block: Block<'_>) {
        match block {
            Block::Data(b"[DONE]") => self.done = true,
            Block::Data(data) => match Event::parse(data) {
                Some(event) => self.event(&event),
                None => self.output_events += 1,
            },
            Block::TooLarge => self.output_events += 1,
            Block::Rest(data) => {
                if data == b"[DONE]" {
                    self.done = true;
                } else if let Some(event) = Event::parse(data) {
                    self.event(&event);
                }
            }
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        if let Some(error) = event.error() {
            self.error.get_or_insert(error);
            return;
        }
        let choices = event.choices();
        self.several |= choices.iter().any(|choice| choice.index() > 0);
        self.output_events += event.output_events();
        if choices.iter().any(Choice::is_aborted) {
            let text = "the engine aborted the generation".to_owned();
            self.error.get_or_insert(text);
        }
        if let Some(mut usage) = event.usage() {
            if self.several && !choices.is_empty() {
                usage.output = None;
            }
            if usage.output.is_some() {
                self.usage_at = self.output_events;
            }
            self.usage.update(usage);
        }
    }
}

#[cfg(test)]
mod tests;
