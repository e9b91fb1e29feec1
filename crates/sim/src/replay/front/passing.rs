//! No limit and no order: every request goes to the engine at once. The engine's own queue is
//! then all there is, first come first served (`fifo`) or by priority (`engine-priority`, vLLM's
//! `--scheduling-policy priority`).

use super::{Asked, Done, Front, Verdict};
use std::{collections::VecDeque, time::Duration};

#[derive(Debug, Default)]
pub(in crate::replay) struct Passing {
    due: VecDeque<u64>,
}

impl Front for Passing {
    fn arrive(&mut self, asked: Asked, _now: Duration) {
        self.due.push_back(asked.id);
    }

    fn done(&mut self, _done: Done, _now: Duration) {}

    fn poll(&mut self, _now: Duration) -> Option<Verdict> {
        self.due.pop_front().map(Verdict::Start)
    }
}
