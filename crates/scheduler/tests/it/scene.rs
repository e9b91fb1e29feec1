//! A pod in virtual time: the scheduler, and an engine that gives every running request tokens at
//! one steady pace.

use fairtide_scheduler::{
    BucketSettings, BucketUnit, ClassSettings, Decision, Limit, Outcome, QueueSettings, Reason,
    Refusal, Request, RequestId, Scheduler, Settings, Tier, Tokens,
};
use std::{collections::BTreeMap, time::Duration};

pub fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub fn class(name: &str, tier: Tier) -> ClassSettings {
    ClassSettings {
        name: name.into(),
        tier,
        priority: if tier == Tier::Interactive { 100 } else { 0 },
        weight: 1,
        min_share: 0,
        max_share: None,
        at_least_every: None,
        max_in_flight: None,
        bucket: None,
        queue: QueueSettings {
            max_requests: Some(1_000_000),
            max_tokens: None,
            max_bytes: None,
            per_tenant: None,
            ttl: Duration::from_secs(100_000),
        },
    }
}

pub fn chat() -> ClassSettings {
    class("chat", Tier::Interactive)
}

pub fn batch() -> ClassSettings {
    class("batch", Tier::Batch)
}

pub fn bucket(rate: f64, burst: f64, unit: BucketUnit) -> Option<BucketSettings> {
    Some(BucketSettings { rate, burst, unit })
}

/// A pod of this many seats, without another limit.
pub fn pod(seats: u32, classes: Vec<ClassSettings>) -> Settings {
    Settings {
        limit: Limit {
            max_requests: Some(seats),
            max_tokens: None,
        },
        seat_cap: None,
        reserved_seats: 0,
        max_queued_bytes: u64::MAX,
        max_tenants: 10_000,
        default_class: classes[0].name.clone(),
        classes,
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    Queued,
    Running,
    Ended(Outcome),
    Refused(Refusal),
}

#[derive(Clone, Debug)]
pub struct Job {
    pub class: String,
    pub tenant: String,
    pub output: u64,
    pub fate: Fate,
    pub started: Option<Duration>,
    pub reason: Option<Reason>,
    /// Output tokens so far, with the fraction that is under way.
    pub made: f64,
    pub decisions: u32,
}

pub struct Scene {
    pub scheduler: Scheduler,
    pub now: Duration,
    pub jobs: BTreeMap<RequestId, Job>,
    /// Output tokens a second that each running request gets.
    pub pace: f64,
    /// Starts, in order.
    pub started: Vec<RequestId>,
}

/// What is asked of a pod.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    pub class: &'a str,
    pub tenant: &'a str,
    pub prompt: u64,
    pub output: u64,
    pub cap: Option<u64>,
    pub bytes: u64,
    pub streamed: bool,
}

pub fn ask(class: &str) -> Ask<'_> {
    Ask {
        class,
        tenant: "t",
        prompt: 100,
        output: 50,
        cap: None,
        bytes: 400,
        streamed: true,
    }
}

impl<'a> Ask<'a> {
    pub fn tenant(mut self, tenant: &'a str) -> Self {
        self.tenant = tenant;
        self
    }

    pub fn tokens(mut self, prompt: u64, output: u64) -> Self {
        self.prompt = prompt;
        self.output = output;
        self
    }

    pub fn capped(mut self, cap: u64) -> Self {
        self.cap = Some(cap);
        self
    }

    pub fn unseen(mut self) -> Self {
        self.streamed = false;
        self
    }
}

impl Scene {
    pub fn new(settings: Settings) -> Self {
        Self {
            scheduler: Scheduler::new(settings, Duration::ZERO),
            now: Duration::ZERO,
            jobs: BTreeMap::new(),
            pace: 50.0,
            started: Vec::new(),
        }
    }

    /// A request arrives, and what is due is done.
    pub fn arrive(&mut self, ask: Ask<'_>) -> RequestId {
        let id = self.queue(ask);
        self.settle();
        id
    }

    /// A request arrives; nothing else happens yet.
    pub fn queue(&mut self, ask: Ask<'_>) -> RequestId {
        let id = RequestId(self.jobs.len() as u64);
        let request = Request {
            id,
            class: ask.class.into(),
            tenant: ask.tenant.into(),
            prompt_tokens: ask.prompt,
            output_cap: ask.cap,
            streamed: ask.streamed,
            body_bytes: ask.bytes,
        };
        let fate = match self.scheduler.enqueue(request, self.now) {
            Ok(()) => Fate::Queued,
            Err(refusal) => Fate::Refused(refusal),
        };
        let job = Job {
            class: ask.class.to_owned(),
            tenant: ask.tenant.to_owned(),
            output: ask.output,
            fate,
            started: None,
            reason: None,
            made: 0.0,
            decisions: 0,
        };
        self.jobs.insert(id, job);
        id
    }

    /// Does what is due.
    pub fn settle(&mut self) {
        while let Some(decision) = self.scheduler.poll(self.now) {
            let (id, fate, reason) = match decision {
                Decision::Start { id, reason, .. } => (id, Fate::Running, Some(reason)),
                Decision::Refuse { id, refusal, .. } => (id, Fate::Refused(refusal), None),
            };
            let job = self.jobs.get_mut(&id).unwrap();
            assert_eq!(job.fate, Fate::Queued, "{id:?} was decided upon before");
            job.decisions += 1;
            if fate == Fate::Running {
                job.started = Some(self.now);
                self.started.push(id);
            }
            job.reason = reason;
            job.fate = fate;
        }
    }

    /// A client leaves, or an engine fails.
    pub fn end(&mut self, id: RequestId, outcome: Outcome) {
        let job = self.jobs.get_mut(&id).unwrap();
        let output = (job.fate == Fate::Running && job.made >= 1.0).then_some(job.made as u64);
        job.fate = Fate::Ended(outcome);
        let tokens = Tokens {
            prompt: None,
            cached: None,
            output,
        };
        self.scheduler.end(id, outcome, tokens, self.now);
        self.settle();
    }

    /// Lets the engine run for a while, a tenth of a second at a time.
    pub fn run(&mut self, seconds: f64) {
        self.run_with(seconds, |_| {});
    }

    /// The same, with something done at each tenth of a second.
    pub fn run_with(&mut self, seconds: f64, mut each: impl FnMut(&mut Self)) {
        let until = self.now + secs(seconds);
        while self.now < until {
            let step = secs(0.1).min(until - self.now);
            self.now += step;
            self.make_tokens(step);
            each(self);
            self.settle();
        }
    }

    fn make_tokens(&mut self, step: Duration) {
        for id in self.with(|job| job.fate == Fate::Running) {
            let job = self.jobs.get_mut(&id).unwrap();
            job.made += self.pace * step.as_secs_f64();
            let done = job.made >= job.output as f64;
            let output = if done { job.output } else { job.made as u64 };
            let tokens = Tokens {
                prompt: None,
                cached: None,
                output: Some(output),
            };
            if done {
                job.made = job.output as f64;
                job.fate = Fate::Ended(Outcome::Completed);
                self.scheduler.end(id, Outcome::Completed, tokens, self.now);
            } else {
                self.scheduler.progress(id, tokens, self.now);
            }
        }
    }

    pub fn with(&self, which: impl Fn(&Job) -> bool) -> Vec<RequestId> {
        let jobs = self.jobs.iter().filter(|(_, job)| which(job));
        jobs.map(|(id, _)| *id).collect()
    }

    pub fn job(&self, id: RequestId) -> &Job {
        &self.jobs[&id]
    }

    pub fn running(&self, id: RequestId) -> bool {
        self.job(id).fate == Fate::Running
    }

    pub fn refusal(&self, id: RequestId) -> Refusal {
        match &self.job(id).fate {
            Fate::Refused(refusal) => *refusal,
            other => panic!("{id:?} is {other:?}"),
        }
    }

    pub fn queued(&self, class: &str) -> u32 {
        self.view(class).queued
    }

    pub fn in_flight(&self, class: &str) -> u32 {
        self.view(class).in_flight
    }

    pub fn served(&self, class: &str) -> f64 {
        self.view(class).served_cost
    }

    pub fn view(&self, class: &str) -> fairtide_scheduler::ClassSnapshot {
        let snapshot = self.scheduler.snapshot(self.now);
        let found = snapshot.classes.into_iter().find(|c| &*c.name == class);
        found.unwrap_or_else(|| panic!("no class {class}"))
    }

    /// Output tokens made for a tenant.
    pub fn made(&self, tenant: &str) -> f64 {
        let jobs = self.jobs.values().filter(|job| job.tenant == tenant);
        jobs.map(|job| job.made).sum()
    }
}
