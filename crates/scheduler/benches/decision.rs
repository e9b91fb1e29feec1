//! What one decision costs: a request is queued and another started while 10,000 of 1,000 tenants
//! wait. Target: under 5 µs median. Written to `target/bench/decision.json`.

use criterion::{Criterion, criterion_group, criterion_main};
use fairtide_scheduler::{
    ClassSettings, Decision, Limit, Outcome, QueueSettings, Request, RequestId, Scheduler,
    Settings, Tier, Tokens,
};
use std::{collections::VecDeque, fs, hint::black_box, path::Path, sync::Arc, time::Duration};

const QUEUED: u64 = 10_000;
const TENANTS: u64 = 1_000;
const SEATS: u32 = 64;

fn class(name: &str, tier: Tier) -> ClassSettings {
    ClassSettings {
        name: name.into(),
        tier,
        priority: if tier == Tier::Interactive { 100 } else { 0 },
        weight: 1,
        min_share: if tier == Tier::Interactive { 0 } else { 5 },
        max_share: None,
        at_least_every: None,
        max_in_flight: None,
        bucket: None,
        queue: QueueSettings {
            max_requests: Some(100_000),
            max_tokens: None,
            max_bytes: None,
            per_tenant: None,
            ttl: Duration::from_secs(100_000),
        },
    }
}

struct Pod {
    scheduler: Scheduler,
    tenants: Vec<Arc<str>>,
    classes: [Arc<str>; 2],
    next: u64,
    running: VecDeque<RequestId>,
    now: Duration,
}

impl Pod {
    fn new() -> Self {
        let settings = Settings {
            limit: Limit {
                max_requests: Some(SEATS),
                max_tokens: Some(1_000_000),
            },
            seat_cap: None,
            reserved_seats: 0,
            max_queued_bytes: u64::MAX,
            max_tenants: 10_000,
            default_class: "chat".into(),
            classes: vec![
                class("chat", Tier::Interactive),
                class("batch", Tier::Batch),
            ],
        };
        let mut pod = Self {
            scheduler: Scheduler::new(settings, Duration::ZERO),
            tenants: (0..TENANTS).map(|t| format!("tenant-{t}").into()).collect(),
            classes: ["chat".into(), "batch".into()],
            next: 0,
            running: VecDeque::new(),
            now: Duration::ZERO,
        };
        for _ in 0..QUEUED + u64::from(SEATS) {
            pod.arrive();
        }
        pod.dispatch();
        pod
    }

    fn arrive(&mut self) {
        let id = self.next;
        self.next += 1;
        let request = Request {
            id: RequestId(id),
            class: self.classes[usize::from(!id.is_multiple_of(4))].clone(),
            tenant: self.tenants[(id * 7919 % TENANTS) as usize].clone(),
            prompt_tokens: 200 + id % 1500,
            output_cap: Some(50 + id % 400),
            streamed: true,
            body_bytes: 4_000,
        };
        black_box(self.scheduler.enqueue(request, self.now)).expect("the queue is wide enough");
    }

    fn dispatch(&mut self) {
        while let Some(decision) = self.scheduler.poll(self.now) {
            if let Decision::Start { id, .. } = decision {
                self.running.push_back(id);
            }
        }
    }

    /// One ends, one arrives, one starts.
    fn turn(&mut self) {
        self.now += Duration::from_micros(500);
        let done = self.running.pop_front().expect("seats are full");
        let tokens = Tokens {
            prompt: None,
            cached: None,
            output: Some(100),
        };
        self.scheduler
            .end(done, Outcome::Completed, tokens, self.now);
        self.arrive();
        self.dispatch();
    }
}

fn decision(c: &mut Criterion) {
    let mut pod = Pod::new();
    let queued: u32 = pod
        .scheduler
        .snapshot(pod.now)
        .classes
        .iter()
        .map(|c| c.queued)
        .sum();
    assert!(u64::from(queued) >= QUEUED, "only {queued} are queued");
    c.bench_function("decision", |b| b.iter(|| pod.turn()));
    report(queued).expect("criterion has just written its estimates");
}

/// Takes the median that criterion found and writes it to `target/bench/decision.json`.
fn report(queued: u32) -> std::io::Result<()> {
    let program = std::env::current_exe()?;
    // target/release/deps/decision-HASH
    let target = program.ancestors().nth(3).unwrap_or(Path::new("target"));
    let estimates = fs::read(target.join("criterion/decision/new/estimates.json"))?;
    let estimates: serde_json::Value = serde_json::from_slice(&estimates)?;
    let median_us = estimates["median"]["point_estimate"]
        .as_f64()
        .unwrap_or(f64::NAN)
        / 1000.0;
    let report = serde_json::json!({
        "schema": 1,
        "queued": queued,
        "tenants": TENANTS,
        "end_enqueue_dispatch_median_us": median_us,
        "target_us": 5.0,
    });
    fs::create_dir_all(target.join("bench"))?;
    fs::write(target.join("bench/decision.json"), format!("{report:#}\n"))?;
    println!("median {median_us:.2} µs of 5 µs; target/bench/decision.json");
    Ok(())
}

criterion_group! {
    name = benches;
    config = Criterion::default();
    targets = decision
}
criterion_main!(benches);
