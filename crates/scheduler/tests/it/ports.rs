//! Several engine ports of one pod, and what happens beside the rules.

use crate::scene::{Ask, Scene, ask, bucket, chat, pod, secs};
use fairtide_scheduler::{
    BucketUnit, Decision, Outcome, Request, RequestId, Scheduler, Settings, Tokens,
};
use std::time::Duration;

fn request(id: u64, class: &str, tenant: &str) -> Request {
    Request {
        id: RequestId(id),
        class: class.into(),
        tenant: tenant.into(),
        prompt_tokens: 100,
        output_cap: None,
        streamed: true,
        body_bytes: 0,
    }
}

/// Two schedulers whose owner hands charges over, as the sidecar does.
fn ports(settings: &Settings) -> [Scheduler; 2] {
    [(), ()].map(|()| {
        let mut port = Scheduler::new(settings.clone(), Duration::ZERO);
        port.share();
        port
    })
}

fn hand_over(ports: &mut [Scheduler; 2], now: Duration) {
    for from in 0..2 {
        for charge in ports[from].charges() {
            ports[1 - from].charged_elsewhere(&charge, now);
        }
    }
}

fn starts(ports: &mut [Scheduler; 2], now: Duration) -> Vec<(usize, RequestId)> {
    let mut started = Vec::new();
    loop {
        let before = started.len();
        for port in 0..2 {
            if let Some(Decision::Start { id, .. }) = ports[port].poll(now) {
                started.push((port, id));
            }
            hand_over(ports, now);
        }
        if started.len() == before {
            return started;
        }
    }
}

#[test]
fn two_ports_together_get_one_bucket() {
    let mut class = chat();
    class.bucket = bucket(1.0, 4.0, BucketUnit::Requests);
    let mut ports = ports(&pod(100, vec![class]));
    for id in 0..20 {
        let port = (id % 2) as usize;
        ports[port]
            .enqueue(request(id, "chat", "t"), secs(0.0))
            .unwrap();
    }
    let first = starts(&mut ports, secs(0.0));
    assert_eq!(first.len(), 4, "the burst, once");
    let by_port = [0, 1].map(|port| first.iter().filter(|(p, _)| *p == port).count());
    assert_eq!(by_port, [2, 2], "in turn");
    let mut more = 0;
    for tick in 1..=60 {
        more += starts(&mut ports, secs(f64::from(tick) / 10.0)).len();
    }
    assert_eq!(more, 6, "one a second, over both");
}

#[test]
fn seats_are_each_ports_own() {
    let mut ports = ports(&pod(1, vec![chat()]));
    for id in 0..4 {
        let port = (id % 2) as usize;
        ports[port]
            .enqueue(request(id, "chat", "t"), secs(0.0))
            .unwrap();
    }
    assert_eq!(starts(&mut ports, secs(0.0)).len(), 2);
}

#[test]
fn a_tenant_that_was_served_on_one_port_comes_later_on_the_other() {
    let mut ports = ports(&pod(1, vec![chat()]));
    ports[0]
        .enqueue(request(0, "chat", "greedy"), secs(0.0))
        .unwrap();
    starts(&mut ports, secs(0.0));
    let tokens = Tokens {
        prompt: Some(100),
        cached: None,
        output: Some(1000),
    };
    ports[0].progress(RequestId(0), tokens, secs(1.0));
    hand_over(&mut ports, secs(1.0));
    // The other port is busy, and greedy comes before modest to its queue.
    for (id, tenant) in [(1, "busy"), (2, "waits"), (3, "greedy"), (4, "modest")] {
        ports[1]
            .enqueue(request(id, "chat", tenant), secs(1.0))
            .unwrap();
        starts(&mut ports, secs(1.0));
    }
    let mut order = Vec::new();
    for id in [1, 2, 4] {
        let none = Tokens::default();
        ports[1].end(RequestId(id), Outcome::EngineUnavailable, none, secs(2.0));
        hand_over(&mut ports, secs(2.0));
        order.extend(starts(&mut ports, secs(2.0)));
    }
    let order: Vec<_> = order.into_iter().map(|(_, id)| id.0).collect();
    assert_eq!(order, [2, 4, 3]);
}

#[test]
fn what_waits_for_the_bucket_on_another_port_counts() {
    let mut class = chat();
    class.bucket = bucket(1.0, 1.0, BucketUnit::Requests);
    class.queue.ttl = secs(5.0);
    let mut ports = ports(&pod(100, vec![class]));
    for id in 0..5 {
        ports[0]
            .enqueue(request(id, "chat", "t"), secs(0.0))
            .unwrap();
    }
    starts(&mut ports, secs(0.0));
    let queued = ports[0].queued_reserve("chat");
    assert_eq!(queued, 4.0);
    ports[1].queued_elsewhere("chat", queued);
    let refusal = ports[1]
        .enqueue(request(9, "chat", "t"), secs(0.0))
        .unwrap_err();
    assert_eq!(refusal.outcome, Outcome::BucketEmpty);
}

#[test]
fn what_passed_takes_seats_and_pays_nothing() {
    let mut class = chat();
    class.bucket = bucket(1.0, 1.0, BucketUnit::Tokens);
    class.bucket.as_mut().unwrap().burst = 10_000.0;
    let mut scene = Scene::new(pod(2, vec![class]));
    for id in 1000..1002 {
        scene.scheduler.pass(request(id, "chat", "t"), scene.now);
    }
    let snapshot = scene.scheduler.snapshot(scene.now);
    assert_eq!(snapshot.in_flight, 2);
    assert!(snapshot.in_flight_tokens >= 200);
    let asked: Ask<'_> = ask("chat");
    let waiting = scene.arrive(asked);
    scene.settle();
    assert!(scene.jobs[&waiting].started.is_none(), "no seat is free");
    let tokens = Tokens {
        prompt: Some(100),
        cached: None,
        output: Some(500),
    };
    for id in 1000..1002 {
        scene.scheduler.progress(RequestId(id), tokens, scene.now);
        scene
            .scheduler
            .end(RequestId(id), Outcome::Completed, tokens, scene.now);
    }
    let snapshot = scene.scheduler.snapshot(scene.now);
    assert_eq!(snapshot.in_flight_tokens, 0);
    assert_eq!(snapshot.classes[0].bucket, Some(10_000.0));
    assert!(snapshot.served_cost > 0.0, "it was served");
    scene.settle();
    assert!(scene.jobs[&waiting].started.is_some());
}

#[test]
fn while_held_nothing_starts_and_what_waits_too_long_has_no_engine() {
    let mut class = chat();
    class.queue.ttl = secs(5.0);
    let mut scheduler = Scheduler::new(pod(2, vec![class]), Duration::ZERO);
    scheduler.hold(true);
    scheduler
        .enqueue(request(0, "chat", "t"), secs(0.0))
        .unwrap();
    scheduler
        .enqueue(request(1, "chat", "t"), secs(3.0))
        .unwrap();
    assert_eq!(scheduler.poll(secs(4.0)), None);
    let Some(Decision::Refuse { id, refusal, .. }) = scheduler.poll(secs(5.0)) else {
        panic!("it waited its time");
    };
    assert_eq!(id, RequestId(0));
    assert_eq!(refusal.outcome, Outcome::EngineUnavailable);
    scheduler.hold(false);
    let next = scheduler.poll(secs(5.0));
    assert!(matches!(next, Some(Decision::Start { id, .. }) if id == RequestId(1)));
}

#[test]
fn a_closing_pod_refuses_what_it_has_no_time_for() {
    let mut scheduler = Scheduler::new(pod(1, vec![chat()]), Duration::ZERO);
    for id in 0..10 {
        scheduler
            .enqueue(request(id, "chat", "t"), secs(0.0))
            .unwrap();
    }
    // One a second.
    let mut now = secs(0.0);
    for id in 0..5 {
        assert!(matches!(scheduler.poll(now), Some(Decision::Start { .. })));
        for _ in 0..10 {
            now += secs(0.1);
            assert_eq!(scheduler.poll(now), None);
        }
        scheduler.end(RequestId(id), Outcome::Completed, Tokens::default(), now);
    }
    assert_eq!(scheduler.usual_stay(), Some(secs(1.0)));
    scheduler.close(secs(2.0), now);
    let mut refused = Vec::new();
    let mut started = 0;
    while let Some(decision) = scheduler.poll(now) {
        match decision {
            Decision::Refuse { id, refusal, .. } => {
                assert_eq!(refusal.outcome, Outcome::Draining);
                refused.push(id.0);
            }
            Decision::Start { .. } => started += 1,
        }
    }
    assert_eq!(started, 1);
    assert!(refused.len() >= 2 && refused.contains(&9), "{refused:?}");
    assert!(!refused.contains(&6), "it still has its time: {refused:?}");
    let late = scheduler.enqueue(request(99, "chat", "t"), now);
    assert_eq!(late.unwrap_err().outcome, Outcome::Draining);
    scheduler.close(Duration::ZERO, now);
    let rest = std::iter::from_fn(|| scheduler.poll(now)).count();
    assert_eq!(refused.len() + rest, 4);
    scheduler.reopen();
    assert!(scheduler.enqueue(request(100, "chat", "t"), now).is_ok());
}
