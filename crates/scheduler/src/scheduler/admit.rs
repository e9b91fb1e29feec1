//! Whether a head may start: its class's own limits, a seat, room in the KV cache, and one of the
//! clauses by which work is let in.

use super::Scheduler;
use crate::{Reason, class::OwnLimits};
use std::time::Duration;

/// Why a class comes where it comes in the order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rank {
    /// Nothing of it has started for `atLeastEvery`.
    StartDue,
    /// It is owed part of its minimum share.
    Owed,
    /// Its priority and counter decide.
    Ordinary,
}

/// What a head of a class may do at this moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// It may start, by this clause.
    Start(Reason),
    /// The pod has no room for one of its size.
    NoRoom,
    /// Its class's `maxShare` has no room for one of its size; others aren't concerned.
    NoShare,
    /// Batch work may not take the seats that are left.
    Reserved,
}

impl Scheduler {
    /// Whether no request at all can start, since every seat is taken.
    pub(super) fn seats_taken(&self) -> bool {
        self.in_flight > 0 && self.seats().is_some_and(|seats| self.in_flight >= seats)
    }

    pub(super) fn own_limits(&self) -> OwnLimits {
        OwnLimits {
            tokens: self.settings.limit.max_tokens,
            requests: self.settings.limit.max_requests.or(self.seats()),
        }
    }

    /// Whether a class that isn't self-limited is owed a start.
    pub(super) fn rank(&self, index: usize, now: Duration) -> Rank {
        let class = &self.classes[index];
        if class.start_due(now).is_some() {
            Rank::StartDue
        } else if class.credit > 0.0 && class.settings.min_share > 0 {
            Rank::Owed
        } else {
            Rank::Ordinary
        }
    }

    /// Whether a head of `ctx` context tokens may start. A seat is free.
    pub(super) fn admit(&self, index: usize, rank: Rank, ctx: u64) -> Verdict {
        let class = &self.classes[index];
        if !class.fits_share(&self.own_limits(), ctx) {
            return Verdict::NoShare;
        }
        let owed = match rank {
            Rank::StartDue => Some(Reason::AtLeastEvery),
            Rank::Owed => Some(Reason::MinShare),
            Rank::Ordinary => None,
        };
        if self.in_flight == 0 {
            return Verdict::Start(owed.unwrap_or(Reason::EmptyPod));
        }
        // Before the sizes: what may not have a seat must not make others wait for its tokens.
        let spare = self.seats().map(|seats| seats - self.reserve(seats));
        let reserved = spare.is_some_and(|spare| self.batch_in_flight >= spare);
        if owed.is_none() && !class.interactive() && reserved {
            return Verdict::Reserved;
        }
        let total = self.in_flight_ctx.saturating_add(ctx);
        if self.engine.kv_tokens.is_some_and(|kv| total > kv) {
            return Verdict::NoRoom;
        }
        // What is owed is bound by neither the limit nor the reserve.
        if let Some(reason) = owed {
            return Verdict::Start(reason);
        }
        let limit = self.settings.limit;
        if limit
            .max_requests
            .is_some_and(|most| self.in_flight >= most)
            || limit.max_tokens.is_some_and(|most| total > most)
        {
            return Verdict::NoRoom;
        }
        Verdict::Start(if class.interactive() {
            Reason::Interactive
        } else {
            Reason::SpareCapacity
        })
    }
}
