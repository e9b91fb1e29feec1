//! The model in real time: requests go in, their answers are written as the steps end.
//!
//! One task sleeps until the step in progress is over and lets the model advance; that is the only
//! timer, whatever the number of requests. Steps follow each other in the model's time, so a late
//! wake-up delays some tokens by a moment but never slows the engine down.
//!
//! All is behind one lock, because a client that leaves must free its seat there and then: a guard
//! in its answer does it when the connection drops it.

use super::{
    answer::Answer,
    metrics::{Facts, Metrics, Refusal},
    request::Generation,
    stream::{EventBody, EventWriter, event_stream},
    version::{Imitated, Kind},
};
use crate::model::{DoesNotFit, Engine, Event, Prompt, SequenceId, Times};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

/// An engine that answers.
#[derive(Debug)]
pub(super) struct Live {
    state: Mutex<State>,
    /// There is work for an engine that had none.
    due: Notify,
    began: Instant,
}

#[derive(Debug)]
struct State {
    engine: Engine,
    imitated: Imitated,
    /// More requests than these are refused; `None`: none are.
    most_requests: Option<usize>,
    metrics: Metrics,
    requests: HashMap<SequenceId, Pending>,
    next_id: u64,
    /// Kept between calls for its memory.
    events: Vec<Event>,
}

#[derive(Debug)]
struct Pending {
    facts: Facts,
    answer: Answer,
    to: To,
}

#[derive(Debug)]
enum To {
    Stream(EventWriter),
    Whole(oneshot::Sender<Whole>),
}

/// An answer that is complete.
#[derive(Debug)]
pub(super) struct Whole {
    pub answer: Answer,
    pub facts: Facts,
    pub times: Times,
}

/// Why a request isn't taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NotTaken {
    /// There are enough already.
    Full,
    /// It could never be served.
    TooLarge(DoesNotFit),
}

/// Takes its request out of the engine when it is dropped; one that has its answer is no longer
/// there.
#[derive(Debug)]
pub(super) struct Seat {
    live: Arc<Live>,
    id: SequenceId,
}

// === impl Live ===

impl Live {
    pub fn new(engine: Engine, imitated: Imitated, most_requests: Option<usize>) -> Arc<Self> {
        let metrics = Metrics::new(imitated, engine.profile());
        Arc::new(Self {
            state: Mutex::new(State {
                engine,
                imitated,
                most_requests,
                metrics,
                requests: HashMap::new(),
                next_id: 0,
                events: Vec::new(),
            }),
            due: Notify::new(),
            began: Instant::now(),
        })
    }

    /// Lets the engine's time pass, for ever.
    pub async fn run(&self) {
        loop {
            let next = {
                let mut state = self.state.lock();
                state.advance(self.began.elapsed());
                state.engine.next_at()
            };
            match next {
                Some(at) => tokio::time::sleep_until(self.began + at).await,
                None => self.due.notified().await,
            }
        }
    }

    /// Queues a request whose answer is streamed.
    pub fn stream(
        self: &Arc<Self>,
        request: &Generation,
        answer: Answer,
    ) -> Result<EventBody<Seat>, NotTaken> {
        let (writer, events) = event_stream();
        let seat = self.submit(request, answer, To::Stream(writer))?;
        Ok(events.into_body(seat))
    }

    /// Waits for a whole answer; `None` when the engine stops before.
    pub async fn whole(
        self: &Arc<Self>,
        request: &Generation,
        answer: Answer,
    ) -> Result<Option<Whole>, NotTaken> {
        let (to, answered) = oneshot::channel();
        let _seat = self.submit(request, answer, To::Whole(to))?;
        Ok(answered.await.ok())
    }

    /// Ends all answers as an engine does that dies: streams with an error event.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        for (id, pending) in std::mem::take(&mut state.requests) {
            if let To::Stream(writer) = &pending.to {
                writer.write(|out| pending.answer.broken_off(out));
            }
            state.abort(id, self.began.elapsed());
        }
    }

    /// The metrics page.
    pub fn metrics_page(&self, model: &str) -> String {
        let mut state = self.state.lock();
        state.advance(self.began.elapsed());
        state.metrics.page(&state.engine, model)
    }

    /// A request has arrived, whatever becomes of it.
    pub fn asked(&self) {
        self.state.lock().metrics.asked();
    }

    /// A request was refused.
    pub fn refused(&self, why: Refusal) {
        self.state.lock().metrics.refused(why);
    }

    fn submit(
        self: &Arc<Self>,
        request: &Generation,
        answer: Answer,
        to: To,
    ) -> Result<Seat, NotTaken> {
        let mut state = self.state.lock();
        // What has ended by now makes room.
        state.advance(self.began.elapsed());
        if state.is_full() {
            return Err(NotTaken::Full);
        }
        let id = SequenceId(state.next_id);
        state.next_id += 1;
        let prompt = Prompt {
            id,
            prompt_tokens: request.prompt_tokens,
            // Real prompts aren't compared here; replays of traces that name blocks are.
            cached_tokens: 0,
            output_tokens: request.output_tokens,
            priority: request.priority,
        };
        let facts = Facts {
            prompt_tokens: request.prompt_tokens,
            output_tokens: request.output_tokens,
            is_cut: request.is_cut,
            is_streamed: matches!(to, To::Stream(_)),
        };
        let pending = Pending { facts, answer, to };
        state
            .submit(prompt, pending, self.began.elapsed())
            .map_err(NotTaken::TooLarge)?;
        // Only an engine without work isn't already waiting for the end of a step.
        self.due.notify_one();
        Ok(Seat {
            live: self.clone(),
            id,
        })
    }
}

// === impl Seat ===

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.live.state.lock();
        if state.requests.remove(&self.id).is_some() {
            state.metrics.left();
            state.abort(self.id, self.live.began.elapsed());
        }
    }
}

// === impl State ===

impl State {
    /// vLLM and TGI count all that they have, SGLang those that wait.
    fn is_full(&self) -> bool {
        let held = match self.imitated.kind() {
            Kind::Vllm | Kind::Tgi => self.requests.len(),
            Kind::Sglang => self.engine.waiting(),
        };
        self.most_requests.is_some_and(|most| held >= most)
    }

    fn advance(&mut self, now: Duration) {
        self.drive(|engine, events| engine.advance(now, events));
    }

    fn abort(&mut self, id: SequenceId, now: Duration) {
        self.drive(|engine, events| engine.abort(id, now, events));
    }

    fn submit(
        &mut self,
        prompt: Prompt,
        pending: Pending,
        now: Duration,
    ) -> Result<(), DoesNotFit> {
        self.drive(|engine, events| engine.submit(prompt, now, events))?;
        self.requests.insert(prompt.id, pending);
        Ok(())
    }

    /// Does something with the engine, and passes on what it gave rise to.
    fn drive<T>(&mut self, act: impl FnOnce(&mut Engine, &mut Vec<Event>) -> T) -> T {
        let mut events = std::mem::take(&mut self.events);
        let done = act(&mut self.engine, &mut events);
        for event in events.drain(..) {
            self.pass_on(event);
        }
        self.events = events;
        done
    }

    fn pass_on(&mut self, event: Event) {
        let id = match event {
            Event::Token { id, .. } | Event::Finished { id, .. } => Some(id),
            _ => None,
        };
        let pending = id.and_then(|id| self.requests.get(&id));
        let profile = self.engine.profile();
        self.metrics
            .count(&event, pending.map(|p| &p.facts), profile);
        let Some(pending) = pending else { return };
        match (event, &pending.to) {
            (Event::Token { number, .. }, To::Stream(writer)) => {
                let is_last = number == pending.facts.output_tokens;
                writer.write(|out| pending.answer.token(number, is_last, out));
            }
            (Event::Finished { id, times }, _) => {
                // The end of a stream went out with its last token; dropping the writer closes it.
                if let Some(Pending {
                    facts,
                    answer,
                    to: To::Whole(to),
                }) = self.requests.remove(&id)
                {
                    // The client may have left in this moment.
                    let _ = to.send(Whole {
                        answer,
                        facts,
                        times,
                    });
                }
            }
            _ => {}
        }
    }
}
