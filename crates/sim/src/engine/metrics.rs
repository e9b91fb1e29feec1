//! What the engine counts, and its metrics page by the names of the version that is imitated.
//!
//! Only what the model knows is there: no series stands for something that isn't simulated. As in
//! the engines the times of a request are observed when it finishes, tokens as they come.

mod bounds;
mod page;
mod sglang;
mod tgi;
mod vllm;

use super::{
    histogram::Histogram,
    version::{Imitated, Kind},
};
use crate::model::{Engine, Event, Profile, StepLoad, Times};
use bounds::Bounds;
use std::time::Duration;

/// What is known of a request where its events are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub prompt_tokens: u64,
    pub output_tokens: u64,
    /// Its limit ended it, not the model.
    pub is_cut: bool,
    pub is_streamed: bool,
}

/// SGLang tells streamed answers from others.
#[derive(Clone, Debug)]
struct ByStream {
    is_streamed: bool,
    ttft: Histogram,
    time_per_output_token: Histogram,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Full,
    Invalid,
}

#[derive(Clone, Debug)]
pub(super) struct Metrics {
    imitated: Imitated,
    asked: u64,
    full: u64,
    invalid: u64,
    left: u64,
    prompt_tokens: u64,
    generation_tokens: u64,
    preemptions: u64,
    stopped: u64,
    full_length: u64,
    /// Tokens per second of the last step that generated any.
    rate: f64,
    ttft: Histogram,
    inter_token: Histogram,
    time_per_output_token: Histogram,
    e2e: Histogram,
    queue: Histogram,
    inference: Histogram,
    prefill: Histogram,
    decode: Histogram,
    request_prompt_tokens: Histogram,
    request_generation_tokens: Histogram,
    iteration_tokens: Histogram,
    prefill_steps: Histogram,
    decode_steps: Histogram,
    by_stream: [ByStream; 2],
}

// === impl Metrics ===

impl Metrics {
    pub fn new(imitated: Imitated, profile: &Profile) -> Self {
        let bounds = Bounds::of(imitated.kind(), profile.max_model_len);
        Self {
            imitated,
            asked: 0,
            full: 0,
            invalid: 0,
            left: 0,
            prompt_tokens: 0,
            generation_tokens: 0,
            preemptions: 0,
            stopped: 0,
            full_length: 0,
            rate: 0.0,
            ttft: Histogram::new(&bounds.ttft),
            inter_token: Histogram::new(&bounds.token_gap),
            time_per_output_token: Histogram::new(&bounds.token_gap),
            e2e: Histogram::new(&bounds.request_time),
            queue: Histogram::new(&bounds.request_time),
            inference: Histogram::new(&bounds.request_time),
            prefill: Histogram::new(&bounds.request_time),
            decode: Histogram::new(&bounds.request_time),
            request_prompt_tokens: Histogram::new(&bounds.request_tokens),
            request_generation_tokens: Histogram::new(&bounds.request_tokens),
            iteration_tokens: Histogram::new(&bounds.step_tokens),
            prefill_steps: Histogram::new(&bounds.request_time),
            decode_steps: Histogram::new(&bounds.request_time),
            by_stream: [false, true].map(|is_streamed| ByStream {
                is_streamed,
                ttft: Histogram::new(&bounds.ttft),
                time_per_output_token: Histogram::new(&bounds.token_gap),
            }),
        }
    }

    pub fn asked(&mut self) {
        self.asked += 1;
    }

    pub fn refused(&mut self, why: Refusal) {
        match why {
            Refusal::Full => self.full += 1,
            Refusal::Invalid => self.invalid += 1,
        }
    }

    /// A client left before its answer was complete.
    pub fn left(&mut self) {
        self.left += 1;
    }

    /// Counts an event. `facts` are those of its request; a step has none.
    pub fn count(&mut self, event: &Event, facts: Option<&Facts>, profile: &Profile) {
        match (event, facts) {
            (
                Event::Token {
                    number: 1, after, ..
                },
                Some(facts),
            ) => {
                let seconds = after.as_secs_f64();
                self.ttft.observe(seconds);
                let own = &mut self.by_stream[usize::from(facts.is_streamed)];
                own.ttft.observe(seconds);
                self.prompt_tokens += facts.prompt_tokens;
                self.generation_tokens += 1;
            }
            (Event::Token { after, .. }, Some(_)) => {
                self.inter_token.observe(after.as_secs_f64());
                self.generation_tokens += 1;
            }
            (Event::Finished { times, .. }, Some(facts)) => self.finished(times, facts),
            (Event::Preempted { .. }, _) => self.preemptions += 1,
            (Event::Step { load, generated }, _) => self.step(*load, *generated, profile),
            _ => {}
        }
    }

    fn finished(&mut self, times: &Times, facts: &Facts) {
        let seconds = |time: Duration| time.as_secs_f64();
        let inference = times.prefill + times.decode;
        self.queue.observe(seconds(times.queued));
        self.prefill.observe(seconds(times.prefill));
        self.decode.observe(seconds(times.decode));
        self.inference.observe(seconds(inference));
        self.e2e.observe(seconds(times.queued + inference));
        let tokens = facts.output_tokens;
        let per_token = match self.imitated.kind() {
            // The prefill counts as well.
            Kind::Tgi => seconds(inference) / tokens as f64,
            // 0 for an answer of one token.
            Kind::Vllm | Kind::Sglang => seconds(times.decode) / (tokens - 1).max(1) as f64,
        };
        self.time_per_output_token.observe(per_token);
        let own = &mut self.by_stream[usize::from(facts.is_streamed)];
        own.time_per_output_token.observe(per_token);
        self.request_prompt_tokens
            .observe(facts.prompt_tokens as f64);
        self.request_generation_tokens.observe(tokens as f64);
        if facts.is_cut {
            self.full_length += 1;
        } else {
            self.stopped += 1;
        }
    }

    fn step(&mut self, load: StepLoad, generated: u64, profile: &Profile) {
        self.iteration_tokens
            .observe((load.prefill_tokens + generated) as f64);
        let seconds = profile.step.of(load).as_secs_f64();
        if generated > 0 {
            self.rate = generated as f64 / seconds;
        }
        match load.prefill_tokens {
            0 => self.decode_steps.observe(seconds),
            _ => self.prefill_steps.observe(seconds),
        }
    }

    /// The page.
    pub fn page(&self, engine: &Engine, model: &str) -> String {
        match self.imitated.kind() {
            Kind::Vllm => vllm::page(self, engine, model),
            Kind::Tgi => tgi::page(self, engine),
            Kind::Sglang => sglang::page(self, engine, model),
        }
    }
}
