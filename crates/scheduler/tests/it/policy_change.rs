use crate::scene::*;
use fairtide_scheduler::{BucketUnit, Outcome, Tier};

#[test]
fn a_deleted_class_hands_its_queue_to_the_default_class() {
    let mut scene = Scene::new(pod(1, vec![chat(), batch()]));
    scene.pace = 1.0;
    let runs = scene.arrive(ask("batch").tokens(10, 1_000_000));
    let first = scene.arrive(ask("batch"));
    scene.now = secs(1.0);
    let second = scene.arrive(ask("chat"));
    scene.now = secs(2.0);
    let third = scene.arrive(ask("batch"));
    let mut left = pod(1, vec![chat()]);
    left.classes[0].queue.ttl = secs(30.0);
    scene.scheduler.apply(left, scene.now);
    scene.settle();
    assert_eq!(scene.queued("chat"), 3);
    assert_eq!(scene.in_flight("chat"), 1, "what runs is counted there too");
    // One tenant: a FIFO by arrival, over both classes.
    for (id, next) in [(runs, first), (first, second), (second, third)] {
        scene.end(id, Outcome::Completed);
        assert!(scene.running(next));
    }
}

#[test]
fn what_was_handed_over_keeps_its_arrival_time() {
    let mut scene = Scene::new(pod(1, vec![chat(), batch()]));
    scene.arrive(ask("chat").tokens(10, 1_000_000));
    let id = scene.arrive(ask("batch"));
    scene.now = secs(8.0);
    let mut left = pod(1, vec![chat()]);
    left.classes[0].queue.ttl = secs(10.0);
    scene.scheduler.apply(left, scene.now);
    scene.now = secs(10.0);
    scene.settle();
    assert_eq!(scene.refusal(id).outcome, Outcome::QueueTimeout);
}

#[test]
fn a_request_of_an_unknown_class_counts_as_the_default_class() {
    let mut scene = Scene::new(pod(1, vec![chat(), batch()]));
    scene.arrive(ask("gone"));
    assert_eq!(scene.in_flight("chat"), 1);
}

#[test]
fn a_lowered_limit_cuts_nobody_and_is_reached_as_work_ends() {
    let mut scene = Scene::new(pod(8, vec![chat()]));
    let ids: Vec<_> = (0..12)
        .map(|_| scene.arrive(ask("chat").tokens(10, 1_000_000)))
        .collect();
    scene.scheduler.apply(pod(2, vec![chat()]), scene.now);
    scene.settle();
    assert_eq!(scene.in_flight("chat"), 8);
    for id in &ids[..6] {
        scene.end(*id, Outcome::Completed);
    }
    assert_eq!(scene.in_flight("chat"), 2);
    scene.end(ids[6], Outcome::Completed);
    assert_eq!(scene.in_flight("chat"), 2, "the next one started");
}

#[test]
fn a_raised_limit_starts_what_waits() {
    let mut scene = Scene::new(pod(2, vec![chat()]));
    for _ in 0..8 {
        scene.arrive(ask("chat").tokens(10, 1_000_000));
    }
    scene.scheduler.apply(pod(6, vec![chat()]), scene.now);
    scene.settle();
    assert_eq!(scene.in_flight("chat"), 6);
}

#[test]
fn a_change_of_tier_is_counted_at_once() {
    let mut scene = Scene::new(pod(8, vec![chat(), batch()]));
    for _ in 0..8 {
        scene.arrive(ask("chat").tokens(10, 1_000_000));
    }
    let changed = pod(
        8,
        vec![class("chat", Tier::Batch), class("new", Tier::Interactive)],
    );
    scene.scheduler.apply(changed, scene.now);
    let first = scene.started[0];
    scene.arrive(ask("chat"));
    scene.end(first, Outcome::Completed);
    assert_eq!(scene.in_flight("chat"), 7, "the reserve now binds it");
}

#[test]
fn a_new_bucket_counts_what_already_waits() {
    let mut scene = Scene::new(pod(1, vec![chat()]));
    scene.arrive(ask("chat").tokens(10, 1_000_000));
    for _ in 0..5 {
        scene.arrive(ask("chat"));
    }
    let mut limited = pod(1, vec![chat()]);
    limited.classes[0].bucket = bucket(1.0, 1.0, BucketUnit::Requests);
    limited.classes[0].queue.ttl = secs(5.5);
    scene.scheduler.apply(limited, scene.now);
    let id = scene.arrive(ask("chat"));
    assert_eq!(
        scene.job(id).fate,
        Fate::Queued,
        "5 ahead and one in the bucket: 5 s"
    );
    let id = scene.arrive(ask("chat"));
    assert_eq!(scene.refusal(id).outcome, Outcome::BucketEmpty);
}
