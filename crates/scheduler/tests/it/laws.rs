//! The laws, over random sequences of events on a virtual clock.

use crate::scene::*;
use fairtide_scheduler::{BucketUnit, ClassSettings, EngineFacts, Outcome, RequestId, Tier};
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Event {
    Arrive {
        class: usize,
        tenant: u8,
        prompt: u64,
        output: u64,
        capped: bool,
        streamed: bool,
    },
    Run(u8),
    Leave(u8),
    Fail(u8),
    Policy(u8),
    Facts(bool),
}

const CLASSES: [&str; 4] = ["chat", "batch", "other", "gone"];
const TENANTS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0..4usize, 0..5u8, 1..4000u64, 1..200u64, any::<bool>(), any::<bool>()).prop_map(
            |(class, tenant, prompt, output, capped, streamed)| Event::Arrive {
                class, tenant, prompt, output, capped, streamed
            }
        ),
        4 => (1..40u8).prop_map(Event::Run),
        2 => any::<u8>().prop_map(Event::Leave),
        1 => any::<u8>().prop_map(Event::Fail),
        1 => (0..4u8).prop_map(Event::Policy),
        1 => any::<bool>().prop_map(Event::Facts),
    ]
}

/// Four policies with every kind of limit between them.
fn policy(which: u8) -> fairtide_scheduler::Settings {
    let mut other = class("other", Tier::Batch);
    other.min_share = 20;
    other.bucket = bucket(300.0, 20_000.0, BucketUnit::Tokens);
    let mut batch = batch();
    batch.min_share = 10;
    batch.at_least_every = Some(secs(3.0));
    batch.queue.max_requests = Some(6);
    batch.queue.ttl = secs(5.0);
    let mut settings = match which {
        0 => pod(4, vec![chat(), batch, other]),
        1 => pod(
            2,
            vec![
                chat(),
                ClassSettings {
                    max_in_flight: Some(1),
                    ..batch
                },
            ],
        ),
        2 => pod(8, vec![other, chat()]),
        _ => pod(
            3,
            vec![
                ClassSettings {
                    max_share: Some(50),
                    ..batch
                },
                chat(),
                other,
            ],
        ),
    };
    settings.max_tenants = 3;
    if which % 2 == 1 {
        settings.limit.max_tokens = Some(6_000);
    }
    settings
}

fn play(events: &[Event]) -> Scene {
    let mut scene = Scene::new(policy(0));
    let mut seats = 4;
    for event in events {
        match event {
            Event::Arrive {
                class,
                tenant,
                prompt,
                output,
                capped,
                streamed,
            } => {
                let mut ask = ask(CLASSES[*class])
                    .tenant(TENANTS[usize::from(*tenant)])
                    .tokens(*prompt, *output);
                ask.streamed = *streamed;
                ask.cap = capped.then_some(*output);
                scene.arrive(ask);
            }
            Event::Run(tenths) => scene.run(f64::from(*tenths) / 10.0),
            Event::Leave(n) => leave(
                &mut scene,
                *n,
                Outcome::CancelledQueued,
                Outcome::CancelledRunning,
            ),
            Event::Fail(n) => leave(
                &mut scene,
                *n,
                Outcome::CancelledQueued,
                Outcome::EngineFailed,
            ),
            Event::Policy(which) => {
                let settings = policy(*which);
                seats = settings.limit.max_requests.unwrap();
                scene.scheduler.apply(settings, scene.now);
                scene.settle();
            }
            Event::Facts(known) => {
                let facts = EngineFacts {
                    seats: None,
                    kv_tokens: known.then_some(9_000),
                    context_tokens: known.then_some(5_000),
                };
                scene.scheduler.set_engine(facts, scene.now);
                scene.settle();
            }
        }
        check(&scene, seats);
    }
    scene
}

fn leave(scene: &mut Scene, n: u8, queued: Outcome, running: Outcome) {
    let live = scene.with(|job| matches!(job.fate, Fate::Queued | Fate::Running));
    if let Some(&id) = live.get(usize::from(n) % live.len().max(1)) {
        let outcome = if scene.running(id) { running } else { queued };
        scene.end(id, outcome);
    }
}

/// What holds after every event.
fn check(scene: &Scene, seats: u32) {
    let snapshot = scene.scheduler.snapshot(scene.now);
    let running = scene.with(|job| job.fate == Fate::Running).len() as u32;
    let queued = scene.with(|job| job.fate == Fate::Queued).len() as u32;
    assert_eq!(snapshot.in_flight, running);
    assert_eq!(
        snapshot.classes.iter().map(|c| c.in_flight).sum::<u32>(),
        running
    );
    assert_eq!(
        snapshot.classes.iter().map(|c| c.queued).sum::<u32>(),
        queued
    );
    assert_eq!(snapshot.queued_bytes, u64::from(queued) * 400);
    let tokens: u64 = snapshot.classes.iter().map(|c| c.in_flight_tokens).sum();
    assert_eq!(snapshot.in_flight_tokens, tokens);
    // Seats are only passed by what ran before they were lowered.
    if running > seats {
        let last = scene.started.last().map(|id| scene.job(*id).started);
        assert!(last.is_some());
    }
    if queued > 0 && running == 0 {
        assert!(
            snapshot
                .classes
                .iter()
                .all(|c| c.queued == 0 || c.self_limited),
            "an empty pod lets work wait: {snapshot:?}"
        );
    }
    assert!(scene.scheduler.wake_at(scene.now).is_some() || queued == 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_has_exactly_one_outcome(events in prop::collection::vec(event(), 1..120)) {
        let mut scene = play(&events);
        // Drain: everything ends, and everything that was taken is given back.
        for id in scene.with(|job| matches!(job.fate, Fate::Queued | Fate::Running)) {
            if matches!(scene.job(id).fate, Fate::Queued | Fate::Running) {
                let running = scene.running(id);
                scene.end(id, if running { Outcome::CancelledRunning } else { Outcome::CancelledQueued });
            }
        }
        let snapshot = scene.scheduler.snapshot(scene.now);
        prop_assert_eq!(snapshot.in_flight, 0);
        prop_assert_eq!(snapshot.in_flight_tokens, 0);
        prop_assert_eq!(snapshot.queued_bytes, 0);
        for class in &snapshot.classes {
            prop_assert_eq!((class.queued, class.in_flight, class.in_flight_tokens, class.queued_tokens), (0, 0, 0, 0));
            prop_assert_eq!(class.active_tenants, 0);
            prop_assert!(class.served_cost >= -1e-6, "{:?}", class);
        }
        prop_assert_eq!(scene.scheduler.poll(scene.now), None);
        prop_assert!(scene.jobs.values().all(|job| job.decisions <= 1));
    }

    #[test]
    fn a_tenants_requests_start_in_the_order_of_their_arrival(events in prop::collection::vec(event(), 1..120)) {
        // Under one policy, so that no request changes its class.
        let events: Vec<_> = events.into_iter().filter(|e| !matches!(e, Event::Policy(_))).collect();
        let scene = play(&events);
        let mut last: HashMap<(&str, &str), RequestId> = HashMap::new();
        for id in &scene.started {
            let job = scene.job(*id);
            // "gone" is no class: its requests are the default's, chat's.
            let class = if job.class == "gone" { "chat" } else { job.class.as_str() };
            if let Some(before) = last.insert((class, job.tenant.as_str()), *id) {
                prop_assert!(before < *id, "{before:?} before {id:?}");
            }
        }
    }

    #[test]
    fn no_seat_is_idle_while_a_head_may_start(
        seats in 1..24u32, interactive in 0..40usize, batch_jobs in 0..40usize, reserved in 0..12u32,
    ) {
        let mut settings = pod(seats, vec![chat(), batch()]);
        settings.reserved_seats = reserved;
        let mut scene = Scene::new(settings);
        for n in 0..interactive.max(batch_jobs) {
            if n < batch_jobs { scene.arrive(ask("batch").tokens(10, 400)); }
            if n < interactive { scene.arrive(ask("chat").tokens(10, 100)); }
            scene.run(0.3);
            let view = scene.scheduler.snapshot(scene.now);
            let (chat, batch) = (scene.view("chat"), scene.view("batch"));
            if chat.queued > 0 {
                prop_assert_eq!(view.in_flight, seats, "a chat head waits beside a free seat");
            }
            if batch.queued > 0 && view.in_flight < seats {
                prop_assert!(batch.in_flight + view.reserve >= seats, "{:?}", view);
                prop_assert!(view.in_flight > 0);
            }
        }
    }

    #[test]
    fn min_share_is_kept_in_every_window(
        share in 1..60u8, prompt in 1..2000u64, output in 10..200u64, chat_output in 10..200u64, seats in 2..24u32,
    ) {
        let mut floor = batch();
        floor.min_share = share;
        let mut scene = Scene::new(pod(seats, vec![chat(), floor]));
        let mut marks = Vec::new();
        scene.run_with(120.0, |scene| {
            for (ask, name) in [
                (ask("chat").tokens(100, chat_output), "chat"),
                (ask("batch").tokens(prompt, output), "batch"),
            ] {
                for _ in scene.queued(name)..30 {
                    scene.queue(ask.clone());
                }
            }
            let undelivered: f64 = scene
                .with(|j| j.class == "batch" && j.fate == Fate::Running)
                .iter()
                .map(|id| {
                    let job = scene.job(*id);
                    let prompt = if job.made >= 1.0 { 0.0 } else { prompt as f64 };
                    prompt + 4.0 * (job.output as f64 - job.made)
                })
                .sum();
            let all = scene.scheduler.snapshot(scene.now).served_cost;
            marks.push((all, scene.served("batch"), undelivered));
        });
        // Estimates are learned in the first answers; the law is about what follows.
        let marks = &marks[300..];
        let largest = prompt as f64 + 4.0 * output as f64;
        for (i, from) in marks.iter().enumerate() {
            for to in marks[i..].iter().step_by(50) {
                let promised = f64::from(share) / 100.0 * (to.0 - from.0);
                let got = to.1 - from.1 + to.2;
                // One tenth of a second passes between two looks.
                let look = f64::from(seats) * (50.0 * 0.1 * 4.0 + 2000.0);
                prop_assert!(got + largest + 0.02 * promised + look >= promised, "{got} of {promised}");
            }
        }
    }

    #[test]
    fn equals_stay_level_by_weight(
        weights in (1..5u32, 1..5u32), outputs in (10..300u64, 10..300u64), prompts in (1..2000u64, 1..2000u64), seats in 2..24u32,
    ) {
        let one = ClassSettings { weight: weights.0, ..class("one", Tier::Batch) };
        let two = ClassSettings { weight: weights.1, ..class("two", Tier::Batch) };
        let mut scene = Scene::new(pod(seats, vec![one, two]));
        let mut worst: f64 = 0.0;
        scene.run_with(200.0, |scene| {
            for (ask, name) in [
                (ask("one").tokens(prompts.0, outputs.0), "one"),
                (ask("two").tokens(prompts.1, outputs.1), "two"),
            ] {
                for _ in scene.queued(name)..40 {
                    scene.queue(ask.clone());
                }
            }
            let level = |name: &str, weight: u32| scene.served(name) / f64::from(weight);
            worst = worst.max((level("one", weights.0) - level("two", weights.1)).abs());
        });
        let longest = outputs.0.max(outputs.1) as f64;
        let bound = 2.0 * f64::from(seats) * (4.0 * longest + prompts.0.max(prompts.1) as f64);
        prop_assert!(worst <= bound, "{worst} > {bound}");
    }
}
