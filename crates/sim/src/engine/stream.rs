//! The body of a streamed answer.
//!
//! The engine writes events into a buffer that the connection takes from. Tokens that come while
//! the connection is busy lie side by side and go out in one write, so a slow reader costs memory
//! for the answer it asked for and no more.

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use parking_lot::Mutex;
use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

#[derive(Debug, Default)]
pub(super) struct State {
    buffer: BytesMut,
    ended: bool,
    reader: Option<Waker>,
}

/// The engine's end.
#[derive(Debug)]
pub(super) struct EventWriter(Arc<Mutex<State>>);

/// The connection's end, until it is known what to drop with it.
#[derive(Debug)]
pub(super) struct Events(Arc<Mutex<State>>);

/// The connection's end. `G` is dropped with it: it tells the engine that the client has left.
#[derive(Debug)]
pub(super) struct EventBody<G> {
    state: Arc<Mutex<State>>,
    _guard: G,
}

pub(super) fn event_stream() -> (EventWriter, Events) {
    let state = Arc::new(Mutex::new(State::default()));
    (EventWriter(state.clone()), Events(state))
}

// === impl Events ===

impl Events {
    pub fn into_body<G>(self, guard: G) -> EventBody<G> {
        EventBody {
            state: self.0,
            _guard: guard,
        }
    }
}

// === impl EventWriter ===

impl EventWriter {
    pub fn write(&self, render: impl FnOnce(&mut BytesMut)) {
        let mut state = self.0.lock();
        render(&mut state.buffer);
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }
}

/// Without a writer nothing more comes: the body ends.
impl Drop for EventWriter {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.ended = true;
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }
}

// === impl EventBody ===

impl<G: Unpin> Body for EventBody<G> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut state = self.state.lock();
        if !state.buffer.is_empty() {
            let events = state.buffer.split().freeze();
            return Poll::Ready(Some(Ok(Frame::data(events))));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}
