//! Load for an engine or a sidecar in front of it, and what became of it.
//!
//! Open loop, always: requests arrive when the scenario says, whatever becomes of those before. A
//! closed loop, whose clients wait for an answer before they ask again, sends less just when the
//! system is slow, and so hides the queue that is to be measured.
//!
//! The measuring window is the scenario's `duration`; `drain` later whatever is unfinished is
//! cancelled. It then counts as offered, as not attained, and with its age as the least that its
//! time to the first token can have been.

mod client;
mod plan;
mod pulse;
mod report;
mod scenario;
mod seen;
mod table;
mod target;
mod timeline;

pub use plan::{Offered, plan};
pub(crate) use report::by_outcome;
pub use report::{ClassRun, EngineRun, Objectives, Percentiles, Run, SCHEMA};
pub use scenario::{Arrivals, Bursts, ClassLoad, Length, Scenario, ScenarioError, Slo, TenantLoad};
pub use seen::{End, Seen};
pub use table::table;
pub use target::target;
pub use timeline::Timeline;

use client::Client;
pub(crate) use client::in_full;
use http::Uri;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

/// A load about to be offered.
#[derive(Clone, Debug)]
pub struct Load {
    /// What is offered.
    pub scenario: Arc<Scenario>,
    /// Which requests exactly.
    pub seed: u64,
    /// Where: `http://host:port/`. Requests of a class go to them in turn.
    pub targets: Vec<Uri>,
    /// What is being measured, for the report.
    pub policy: String,
    /// The requests, by time: at first what the scenario plans.
    pub requests: Vec<Offered>,
    /// No more than so many are under way at once: others wait for their turn, and are timed from
    /// when they should have been sent.
    pub most_in_flight: usize,
    /// Gets the tokens as they come.
    pub timeline: Timeline,
}

/// What became of a load.
#[derive(Clone, Debug)]
pub struct Offering {
    /// The figures.
    pub run: Run,
    /// Each request.
    pub seen: Vec<Seen>,
    /// Why requests failed, and how many did for each reason.
    pub failures: BTreeMap<String, u64>,
    /// How many had to wait for their turn.
    pub held_back: u64,
}

// === impl Load ===

impl Load {
    /// This load, with a timeline of its own.
    pub fn new(scenario: Arc<Scenario>, seed: u64, targets: Vec<Uri>, policy: &str) -> Self {
        Self {
            timeline: Timeline::new(scenario.classes.len()),
            requests: plan(&scenario, seed),
            most_in_flight: Semaphore::MAX_PERMITS,
            scenario,
            seed,
            targets,
            policy: policy.to_owned(),
        }
    }

    /// Offers it, from now on. Returns when the window is over and every request has ended.
    pub async fn offer(self) -> Offering {
        let start = Instant::now();
        let window_end = start + self.scenario.duration;
        let targets = self.targets.clone();
        let pulse = tokio::spawn(async move { pulse::watch(&targets, window_end).await });
        let client = Client::new(
            self.scenario.clone(),
            &self.targets,
            self.timeline.clone(),
            start,
        );
        let mut requests = JoinSet::new();
        let turns = Arc::new(Semaphore::new(self.most_in_flight));
        let held_back = Arc::new(AtomicU64::new(0));
        for offered in self.requests {
            tokio::time::sleep_until(start + offered.at).await;
            let client = client.clone();
            let (turns, held_back) = (turns.clone(), held_back.clone());
            requests.spawn(async move {
                let _turn = match turns.try_acquire() {
                    Ok(turn) => Ok(turn),
                    Err(_) => {
                        held_back.fetch_add(1, Ordering::Relaxed);
                        turns.acquire().await
                    }
                };
                client.send(offered).await
            });
        }
        let seen = requests.join_all().await;
        tokio::time::sleep_until(window_end).await;
        let pulse = pulse.await.unwrap_or_default();
        let mut failures = BTreeMap::new();
        for seen in &seen {
            if let End::Failed(reason) = &seen.end {
                *failures.entry(reason.clone()).or_default() += 1;
            }
        }
        let run = report::report(
            &self.scenario,
            &self.policy,
            self.seed,
            &seen,
            &self.timeline,
            pulse,
        );
        Offering {
            run,
            seen,
            failures,
            held_back: held_back.load(Ordering::Relaxed),
        }
    }
}
