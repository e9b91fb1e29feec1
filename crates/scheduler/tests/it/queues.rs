use crate::scene::*;
use fairtide_scheduler::{EngineFacts, Outcome, Reason};

fn full_pod(change: impl FnOnce(&mut fairtide_scheduler::Settings)) -> Scene {
    let mut settings = pod(1, vec![chat(), batch()]);
    change(&mut settings);
    let mut scene = Scene::new(settings);
    scene.pace = 1.0;
    scene.arrive(ask("chat").tokens(10, 1_000_000));
    scene
}

#[test]
fn a_request_that_waited_its_ttl_is_refused_then() {
    let mut scene = full_pod(|s| s.classes[0].queue.ttl = secs(10.0));
    let id = scene.arrive(ask("chat"));
    let wake = scene.scheduler.wake_at(scene.now).unwrap();
    assert!(wake <= secs(10.0));
    scene.now = secs(9.999);
    scene.settle();
    assert_eq!(scene.job(id).fate, Fate::Queued);
    scene.now = secs(10.0);
    scene.settle();
    let refusal = scene.refusal(id);
    assert_eq!(refusal.outcome, Outcome::QueueTimeout);
    assert_eq!(refusal.reason, Reason::QueueTtl);
    assert!(refusal.retry_after.is_some());
}

#[test]
fn the_owner_is_woken_in_time_for_every_ttl() {
    let mut scene = full_pod(|s| s.classes[0].queue.ttl = secs(7.3));
    let id = scene.arrive(ask("chat"));
    for _ in 0..20 {
        let Some(wake) = scene.scheduler.wake_at(scene.now) else {
            break;
        };
        assert!(wake > scene.now, "a wake-up in the past would spin");
        scene.now = wake;
        scene.settle();
    }
    assert_eq!(scene.refusal(id).outcome, Outcome::QueueTimeout);
    assert!(scene.now < secs(12.0));
}

#[test]
fn every_bound_of_the_queue_refuses_with_its_own_reason() {
    type Change = fn(&mut fairtide_scheduler::QueueSettings);
    let bounds: [(Change, Reason); 4] = [
        (|q| q.max_requests = Some(2), Reason::QueueRequests),
        (|q| q.max_tokens = Some(700), Reason::QueueTokens),
        (|q| q.max_bytes = Some(900), Reason::QueueBytes),
        (|q| q.per_tenant = Some(2), Reason::QueueTenant),
    ];
    for (change, reason) in bounds {
        let mut scene = full_pod(|s| change(&mut s.classes[0].queue));
        let ids: Vec<_> = (0..3)
            .map(|_| scene.arrive(ask("chat").capped(200)))
            .collect();
        assert_eq!(scene.job(ids[1]).fate, Fate::Queued, "{reason}");
        let refusal = scene.refusal(ids[2]);
        assert_eq!(
            (refusal.outcome, refusal.reason),
            (Outcome::QueueFull, reason)
        );
        assert!(refusal.retry_after.is_some());
    }
}

#[test]
fn an_empty_queue_takes_one_request_of_any_size() {
    let mut scene = full_pod(|s| {
        s.classes[0].queue.max_tokens = Some(10);
        s.classes[0].queue.max_bytes = Some(10);
    });
    let id = scene.arrive(ask("chat"));
    assert_eq!(scene.job(id).fate, Fate::Queued);
}

#[test]
fn one_tenants_backlog_does_not_shut_the_others_out() {
    let mut scene = full_pod(|s| s.classes[1].queue.max_requests = Some(10));
    let hog: Vec<_> = (0..12)
        .map(|_| scene.arrive(ask("batch").tenant("hog")))
        .collect();
    assert_eq!(scene.refusal(hog[11]).reason, Reason::QueueRequests);
    let light = scene.arrive(ask("batch").tenant("light"));
    assert_eq!(scene.job(light).fate, Fate::Queued);
    assert_eq!(
        scene.refusal(hog[9]).outcome,
        Outcome::QueueFull,
        "the newest made room"
    );
    assert_eq!(scene.queued("batch"), 10);
}

#[test]
fn queued_bodies_are_bounded_over_all_classes() {
    let mut scene = full_pod(|s| s.max_queued_bytes = 1_000);
    scene.arrive(ask("chat"));
    scene.arrive(ask("batch"));
    let id = scene.arrive(ask("chat"));
    assert_eq!(scene.refusal(id).outcome, Outcome::MemoryPressure);
}

#[test]
fn what_can_never_fit_is_refused_for_good() {
    let mut scene = full_pod(|_| {});
    for (facts, reason) in [
        (
            EngineFacts {
                context_tokens: Some(8_192),
                ..EngineFacts::default()
            },
            Reason::ContextWindow,
        ),
        (
            EngineFacts {
                kv_tokens: Some(8_192),
                ..EngineFacts::default()
            },
            Reason::KvCache,
        ),
    ] {
        scene.scheduler.set_engine(facts, scene.now);
        let refusal = {
            let id = scene.arrive(ask("chat").tokens(20_000, 1));
            scene.refusal(id)
        };
        assert_eq!(
            (refusal.outcome, refusal.reason),
            (Outcome::TooLarge, reason)
        );
        assert_eq!(refusal.retry_after, None);
        // Prompt tokens are an estimate: the engine judges what is near its limit.
        let near = scene.arrive(ask("chat").tokens(9_000, 1));
        assert_eq!(scene.job(near).fate, Fate::Queued);
    }
}

#[test]
fn a_client_that_leaves_frees_its_place_and_its_seat() {
    let mut scene = full_pod(|s| s.classes[0].queue.max_requests = Some(1));
    let waiting = scene.arrive(ask("chat"));
    scene.end(waiting, Outcome::CancelledQueued);
    assert_eq!(scene.queued("chat"), 0);
    let next = scene.arrive(ask("chat"));
    assert_eq!(scene.job(next).fate, Fate::Queued);
    let runs = scene.started[0];
    scene.end(runs, Outcome::CancelledRunning);
    assert!(scene.running(next));
}

#[test]
fn a_drain_refuses_the_new_and_serves_the_queued() {
    let mut scene = full_pod(|_| {});
    let queued = scene.arrive(ask("chat"));
    scene.scheduler.drain();
    let late = scene.arrive(ask("chat"));
    assert_eq!(scene.refusal(late).outcome, Outcome::Draining);
    scene.end(scene.started[0], Outcome::Completed);
    assert!(scene.running(queued));
}

#[test]
fn while_most_are_refused_retries_are_discouraged() {
    let mut scene = full_pod(|s| s.classes[0].queue.max_requests = Some(1));
    let early = scene.arrive(ask("chat"));
    assert_eq!(scene.job(early).fate, Fate::Queued);
    let second = scene.arrive(ask("chat"));
    assert!(!scene.refusal(second).storm);
    for _ in 0..20 {
        scene.arrive(ask("chat"));
    }
    let last = scene.arrive(ask("chat"));
    assert!(scene.refusal(last).storm);
    scene.now = secs(600.0);
    let later = scene.arrive(ask("chat"));
    assert!(!scene.refusal(later).storm);
}

#[test]
fn tenants_beyond_the_cap_share_one_queue() {
    let mut scene = full_pod(|s| s.max_tenants = 2);
    for tenant in ["a", "b", "c", "d"] {
        let id = scene.arrive(ask("batch").tenant(tenant));
        assert_eq!(scene.job(id).fate, Fate::Queued);
    }
    assert_eq!(
        scene.view("batch").active_tenants,
        3,
        "a, b and the shared one"
    );
}

#[test]
fn an_idle_tenant_makes_room_for_a_new_one() {
    let mut scene = Scene::new({
        let mut settings = pod(4, vec![batch()]);
        settings.max_tenants = 2;
        settings
    });
    for tenant in ["a", "b", "c", "d", "e"] {
        let id = scene.arrive(ask("batch").tenant(tenant));
        assert!(scene.running(id));
        scene.end(id, Outcome::Completed);
    }
    assert_eq!(scene.view("batch").active_tenants, 0);
}

#[test]
fn a_full_queue_names_the_time_that_it_needs_to_drain() {
    let mut settings = pod(10, vec![batch()]);
    settings.classes[0].queue.max_requests = Some(100);
    let mut scene = Scene::new(settings);
    // 10 seats, 1 s each: 10 requests a second.
    scene.run_with(30.0, |scene| {
        for _ in scene.queued("batch")..100 {
            scene.queue(ask("batch").tokens(10, 50));
        }
    });
    for _ in scene.queued("batch")..100 {
        scene.arrive(ask("batch"));
    }
    let id = scene.arrive(ask("batch"));
    let wait = scene.refusal(id).retry_after.unwrap();
    assert!(wait > secs(8.0) && wait < secs(13.0), "{wait:?}");
}
