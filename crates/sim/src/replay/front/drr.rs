//! `input-drr`: deficit round robin over tenants, by the tokens of prompts (Shreedhar and Varghese
//! 1995; Dynamo's router queues by input cost in this manner). Answers cost nothing, since their
//! length isn't known when a request is ordered: that is the weakness to be measured.

use super::{Asked, Done, Front, Verdict};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// Prompt tokens that a tenant gains each round.
const QUANTUM: u64 = 1024;

#[derive(Debug)]
pub(in crate::replay) struct Drr {
    most: usize,
    in_flight: usize,
    /// Tenants with something queued, the one whose turn it is first.
    turns: VecDeque<Arc<str>>,
    tenants: HashMap<Arc<str>, Tenant>,
}

#[derive(Debug, Default)]
struct Tenant {
    deficit: u64,
    queue: VecDeque<(u64, u64)>,
}

// === impl Drr ===

impl Drr {
    pub fn new(most: usize) -> Self {
        Self {
            most,
            in_flight: 0,
            turns: VecDeque::new(),
            tenants: HashMap::new(),
        }
    }
}

impl Front for Drr {
    fn arrive(&mut self, asked: Asked, _now: Duration) {
        let tenant = self.tenants.entry(asked.tenant.clone()).or_default();
        if tenant.queue.is_empty() {
            tenant.deficit = QUANTUM;
            self.turns.push_back(asked.tenant);
        }
        tenant.queue.push_back((asked.id, asked.prompt_tokens));
    }

    fn done(&mut self, _done: Done, _now: Duration) {
        self.in_flight -= 1;
    }

    fn limit(&self) -> Option<f64> {
        Some(self.most as f64)
    }

    fn poll(&mut self, _now: Duration) -> Option<Verdict> {
        if self.in_flight >= self.most {
            return None;
        }
        loop {
            let name = self.turns.front()?.clone();
            let tenant = self.tenants.get_mut(&name)?;
            let (id, cost) = *tenant.queue.front()?;
            if cost > tenant.deficit {
                tenant.deficit += QUANTUM;
                self.turns.rotate_left(1);
                continue;
            }
            tenant.deficit -= cost;
            tenant.queue.pop_front();
            if tenant.queue.is_empty() {
                self.tenants.remove(&name);
                self.turns.pop_front();
            }
            self.in_flight += 1;
            return Some(Verdict::Start(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_take_turns_by_prompt_tokens() {
        let mut front = Drr::new(usize::MAX);
        let now = Duration::ZERO;
        let mut arrive = |id, tenant: &str, prompt_tokens| {
            let asked = Asked {
                id,
                class: "c".into(),
                interactive: true,
                priority: 0,
                tenant: tenant.into(),
                prompt_tokens,
            };
            front.arrive(asked, now);
        };
        for id in 0..4 {
            arrive(id, "long", 1024);
        }
        for id in 10..18 {
            arrive(id, "short", 512);
        }
        let mut order = Vec::new();
        while let Some(Verdict::Start(id)) = front.poll(now) {
            order.push(id);
        }
        assert_eq!(order, [0, 10, 11, 1, 12, 13, 2, 14, 15, 3, 16, 17]);
    }
}
