//! An LLM engine in virtual time: continuous batching, prefill in chunks, a KV cache that can run
//! out, and a step time that grows with what is in the step.
//!
//! It is pure: nothing reads a clock. Whoever drives it says what time it is, in any unit of
//! reality, and gets back what happened until then; so the same model sits behind an HTTP server
//! in real time and in a replay that takes no time at all. Time advances from step to step, as in
//! the engines that it stands for: whatever arrives during a step waits for the next one.
//!
//! The order of a step is vLLM's: first the running sequences in the order in which they were
//! started, each as far as the token budget goes, then waiting ones while there is a seat, budget
//! and KV room. A running sequence that finds no KV block evicts another (the last started, or the
//! one of the highest priority value), which starts over from its prompt and what it had generated.

mod profile;
mod sequence;
#[cfg(test)]
mod tests;

pub use profile::{BLOCK_TOKENS, Profile, ProfileError, StepLoad, StepTime};
pub use sequence::{Prompt, SequenceId};

use sequence::{Place, Sequence};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// The order of the waiting queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulingPolicy {
    /// First come, first served; priorities are ignored.
    #[default]
    Fcfs,
    /// Lower priority values first, then by arrival. Running sequences keep their seats.
    Priority,
}

/// What happened, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A sequence's first step began.
    Started {
        /// Which.
        id: SequenceId,
        /// How long it had waited.
        waited: Duration,
    },
    /// A sequence got a token.
    Token {
        /// Which.
        id: SequenceId,
        /// 1 for its first token.
        number: u64,
        /// Since the token before it; for the first one, since the sequence arrived.
        after: Duration,
    },
    /// A sequence was evicted from the KV cache and waits again.
    Preempted {
        /// Which.
        id: SequenceId,
    },
    /// A sequence has all its tokens, and is forgotten.
    Finished {
        /// Which.
        id: SequenceId,
        /// Its times.
        times: Times,
    },
    /// A step is over.
    Step {
        /// What it did.
        load: StepLoad,
        /// Tokens that came out of it.
        generated: u64,
    },
}

/// The times of a finished sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// From arrival to its first step.
    pub queued: Duration,
    /// From its first step to its first token.
    pub prefill: Duration,
    /// From its first token to its last.
    pub decode: Duration,
    /// How often it was preempted.
    pub preemptions: u64,
}

/// A request that no engine of this profile could serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{prompt_tokens} prompt and {output_tokens} output tokens don't fit {max_model_len}")]
pub struct DoesNotFit {
    /// Of the request.
    pub prompt_tokens: u64,
    /// Of the request.
    pub output_tokens: u64,
    /// Of the engine.
    pub max_model_len: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// There is work since then; the step has still to begin.
    Due(Duration),
    /// A step is in progress.
    Stepping {
        ends: Duration,
        load: StepLoad,
    },
}

/// The engine.
#[derive(Debug)]
pub struct Engine {
    profile: Profile,
    policy: SchedulingPolicy,
    phase: Phase,
    waiting: BTreeMap<Place, Sequence>,
    places: HashMap<SequenceId, Place>,
    /// In the order in which they were started.
    running: Vec<Sequence>,
    free_blocks: u64,
    arrivals: u64,
}

// === impl Engine ===

impl Engine {
    /// An engine without requests.
    ///
    /// # Errors
    /// The profile contradicts itself.
    pub fn new(profile: Profile, policy: SchedulingPolicy) -> Result<Self, ProfileError> {
        profile.check()?;
        Ok(Self {
            free_blocks: profile.kv_blocks(),
            profile,
            policy,
            phase: Phase::Idle,
            waiting: BTreeMap::new(),
            places: HashMap::new(),
            running: Vec::new(),
            arrivals: 0,
        })
    }

    /// What the engine is like.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Sequences in the batch.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Sequences in the queue.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Tokens, prompt and output, that the sequences in the batch can come to.
    pub fn running_max_tokens(&self) -> u64 {
        let most = self.running.iter().map(|sequence| sequence.prompt);
        most.map(|prompt| prompt.prompt_tokens + prompt.output_tokens)
            .sum()
    }

    /// How much of the KV cache is held, 0 to 1.
    pub fn kv_usage(&self) -> f64 {
        1.0 - self.free_blocks as f64 / self.profile.kv_blocks() as f64
    }

    /// When something happens next by itself; `None`: not before the next request.
    pub fn next_at(&self) -> Option<Duration> {
        match self.phase {
            Phase::Idle => None,
            Phase::Due(at) => Some(at),
            Phase::Stepping { ends, .. } => Some(ends),
        }
    }

    /// Lets time pass until `now`, and appends what happened.
    pub fn advance(&mut self, now: Duration, events: &mut Vec<Event>) {
        loop {
            match self.phase {
                Phase::Due(at) if at <= now => self.begin_step(at, events),
                Phase::Stepping { ends, load } if ends <= now => {
                    self.end_step(ends, load, events);
                    self.begin_step(ends, events);
                }
                _ => return,
            }
        }
    }

    /// Queues a request that arrives now. Time passes until then first.
    ///
    /// # Errors
    /// The engine could never serve it.
    pub fn submit(
        &mut self,
        prompt: Prompt,
        now: Duration,
        events: &mut Vec<Event>,
    ) -> Result<(), DoesNotFit> {
        self.advance(now, events);
        let max_model_len = self.profile.max_model_len;
        let total = prompt.prompt_tokens.saturating_add(prompt.output_tokens);
        if prompt.prompt_tokens == 0 || prompt.output_tokens == 0 || total > max_model_len {
            return Err(DoesNotFit {
                prompt_tokens: prompt.prompt_tokens,
                output_tokens: prompt.output_tokens,
                max_model_len,
            });
        }
        let priority = match self.policy {
            SchedulingPolicy::Fcfs => 0,
            SchedulingPolicy::Priority => prompt.priority,
        };
        let place = (priority, self.arrivals);
        self.arrivals += 1;
        self.queue(Sequence::new(prompt, place, now));
        if self.phase == Phase::Idle {
            self.phase = Phase::Due(now);
        }
        Ok(())
    }

    /// Drops a request, wherever it is; one that is unknown or finished is ignored. Its seat and
    /// KV blocks are free at once, the step in progress takes as long as it would have.
    pub fn abort(&mut self, id: SequenceId, now: Duration, events: &mut Vec<Event>) {
        self.advance(now, events);
        if let Some(place) = self.places.remove(&id) {
            self.waiting.remove(&place);
        } else if let Some(at) = self.running.iter().position(|s| s.prompt.id == id) {
            let sequence = self.running.remove(at);
            self.free_blocks += sequence.blocks;
        }
    }

    fn queue(&mut self, sequence: Sequence) {
        self.places.insert(sequence.prompt.id, sequence.place);
        self.waiting.insert(sequence.place, sequence);
    }

    fn begin_step(&mut self, now: Duration, events: &mut Vec<Event>) {
        let mut budget = self.profile.max_num_batched_tokens;
        let room = self.schedule_running(&mut budget, events);
        if room {
            self.schedule_waiting(&mut budget, now, events);
        }
        let mut load = StepLoad::default();
        for sequence in self.running.iter().filter(|s| s.scheduled > 0) {
            load.sequences += 1;
            if sequence.decodes() {
                load.context_tokens += sequence.computed;
            } else {
                load.prefill_tokens += sequence.scheduled;
            }
        }
        self.phase = if load.sequences == 0 {
            Phase::Idle
        } else {
            Phase::Stepping {
                ends: now + self.profile.step.of(load),
                load,
            }
        };
    }

    /// Gives running sequences their part of the step. Whether there is KV room for others.
    fn schedule_running(&mut self, budget: &mut u64, events: &mut Vec<Event>) -> bool {
        let mut room = true;
        let mut at = 0;
        while at < self.running.len() && *budget > 0 {
            let tokens = self.running[at].uncomputed().min(*budget);
            let lacking = self.running[at].blocks_lacking(tokens);
            if lacking <= self.free_blocks {
                self.free_blocks -= lacking;
                *budget -= tokens;
                let sequence = &mut self.running[at];
                sequence.blocks += lacking;
                sequence.scheduled = tokens;
                at += 1;
                continue;
            }
            room = false;
            let victim = self.victim();
            let mut sequence = self.running.remove(victim);
            // What it had been given of this step goes back.
            *budget += sequence.scheduled;
            self.free_blocks += sequence.blocks;
            sequence.scheduled = 0;
            sequence.blocks = 0;
            sequence.computed = 0;
            sequence.preemptions += 1;
            events.push(Event::Preempted {
                id: sequence.prompt.id,
            });
            self.queue(sequence);
            if victim < at {
                at -= 1;
            }
        }
        room
    }

    /// The running sequence that gives way: last in the order of the queue under `Priority`, the
    /// last started otherwise.
    fn victim(&self) -> usize {
        let last = self.running.len() - 1;
        match self.policy {
            SchedulingPolicy::Fcfs => last,
            SchedulingPolicy::Priority => (0..=last)
                .max_by_key(|at| self.running[*at].place)
                .unwrap_or(last),
        }
    }

    fn schedule_waiting(&mut self, budget: &mut u64, now: Duration, events: &mut Vec<Event>) {
        while self.running.len() < self.profile.max_num_seqs && *budget > 0 {
            let Some(head) = self.waiting.first_entry() else {
                return;
            };
            let tokens = head.get().uncomputed().min(*budget);
            let lacking = head.get().blocks_lacking(tokens);
            if lacking > self.free_blocks {
                return;
            }
            let mut sequence = head.remove();
            self.places.remove(&sequence.prompt.id);
            self.free_blocks -= lacking;
            *budget -= tokens;
            sequence.blocks = lacking;
            sequence.scheduled = tokens;
            if sequence.started.is_none() {
                sequence.started = Some(now);
                events.push(Event::Started {
                    id: sequence.prompt.id,
                    waited: now - sequence.arrived,
                });
            }
            self.running.push(sequence);
        }
    }

    fn end_step(&mut self, now: Duration, load: StepLoad, events: &mut Vec<Event>) {
        let mut generated = 0;
        for sequence in self.running.iter_mut().filter(|s| s.scheduled > 0) {
            sequence.computed += sequence.scheduled;
            sequence.scheduled = 0;
            if sequence.uncomputed() > 0 {
                continue;
            }
            generated += 1;
            sequence.generated += 1;
            sequence.first_token.get_or_insert(now);
            let before = sequence.last_token.replace(now);
            events.push(Event::Token {
                id: sequence.prompt.id,
                number: sequence.generated,
                after: now - before.unwrap_or(sequence.arrived),
            });
        }
        let free_blocks = &mut self.free_blocks;
        self.running.retain(|sequence| {
            if !sequence.is_finished() {
                return true;
            }
            *free_blocks += sequence.blocks;
            let started = sequence.started.unwrap_or(now);
            let first_token = sequence.first_token.unwrap_or(now);
            events.push(Event::Finished {
                id: sequence.prompt.id,
                times: Times {
                    queued: started - sequence.arrived,
                    prefill: first_token - started,
                    decode: now - first_token,
                    preemptions: sequence.preemptions,
                },
            });
            false
        });
        events.push(Event::Step { load, generated });
    }
}
