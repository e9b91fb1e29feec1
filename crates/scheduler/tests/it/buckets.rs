use crate::scene::*;
use fairtide_scheduler::{BucketUnit, Outcome, Reason};

fn limited(rate: f64, burst: f64, unit: BucketUnit, ttl: f64) -> Scene {
    let mut class = chat();
    class.bucket = bucket(rate, burst, unit);
    class.queue.ttl = secs(ttl);
    Scene::new(pod(100, vec![class, batch()]))
}

#[test]
fn requests_beyond_the_burst_wait_for_the_rate() {
    let mut scene = limited(1.0, 2.0, BucketUnit::Requests, 10.0);
    let ids: Vec<_> = (0..3).map(|_| scene.arrive(ask("chat"))).collect();
    assert!(scene.running(ids[0]) && scene.running(ids[1]));
    assert_eq!(scene.job(ids[2]).fate, Fate::Queued);
    scene.run(1.1);
    assert!(scene.running(ids[2]));
}

#[test]
fn a_wait_beyond_the_ttl_is_refused_at_arrival() {
    let mut scene = limited(0.1, 1.0, BucketUnit::Requests, 15.0);
    scene.arrive(ask("chat"));
    let second = scene.arrive(ask("chat"));
    assert_eq!(scene.job(second).fate, Fate::Queued);
    let third = scene.arrive(ask("chat"));
    let refusal = scene.refusal(third);
    assert_eq!(refusal.outcome, Outcome::BucketEmpty);
    assert_eq!(refusal.reason, Reason::Bucket);
    let wait = refusal.retry_after.unwrap();
    assert!(wait >= secs(20.0) && wait < secs(20.1), "{wait:?}");
}

#[test]
fn parallel_calls_cannot_pass_a_limit_meant_for_one() {
    let mut scene = limited(10.0, 1_000.0, BucketUnit::Tokens, 100_000.0);
    for _ in 0..100 {
        scene.arrive(ask("chat").tokens(100, 900).capped(900));
    }
    assert_eq!(scene.in_flight("chat"), 1);
}

#[test]
fn a_token_limit_is_in_force_as_soon_as_it_is_in_debt() {
    let mut scene = limited(0.01, 100.0, BucketUnit::Tokens, 10.0);
    for _ in 0..2 {
        let id = scene.arrive(ask("chat").tokens(30, 30).capped(30));
        assert!(scene.running(id));
        scene.run(1.0);
    }
    let third = scene.arrive(ask("chat").tokens(30, 30).capped(30));
    assert_eq!(scene.refusal(third).outcome, Outcome::BucketEmpty);
}

#[test]
fn what_no_full_bucket_can_hold_is_a_bad_request() {
    let mut scene = limited(10.0, 1_000.0, BucketUnit::Tokens, 10.0);
    let id = scene.arrive(ask("chat").tokens(100, 1).capped(901));
    let refusal = scene.refusal(id);
    assert_eq!(refusal.outcome, Outcome::BadRequest);
    assert_eq!(refusal.reason, Reason::BucketCapacity);
    assert_eq!(refusal.retry_after, None);
}

#[test]
fn what_was_reserved_and_not_used_is_given_back() {
    let mut scene = limited(0.001, 1_000.0, BucketUnit::Tokens, 10.0);
    scene.arrive(ask("chat").tokens(100, 20).capped(900));
    scene.run(1.0);
    let left = scene.view("chat").bucket.unwrap();
    assert!((879.0..881.0).contains(&left), "{left}");
}

#[test]
fn an_answer_longer_than_its_estimate_is_debited_in_full() {
    let mut scene = limited(0.001, 1_000.0, BucketUnit::Tokens, 10.0);
    scene.arrive(ask("chat").tokens(100, 2_000));
    scene.run(60.0);
    let left = scene.view("chat").bucket.unwrap();
    assert!((-1_101.0..-1_099.0).contains(&left), "{left}");
}

#[test]
fn an_engine_that_was_never_reached_costs_nothing() {
    for unit in [BucketUnit::Requests, BucketUnit::Tokens] {
        let mut scene = limited(0.001, 1_000.0, unit, 10.0);
        let id = scene.arrive(ask("chat"));
        scene.end(id, Outcome::EngineUnavailable);
        let left = scene.view("chat").bucket.unwrap();
        assert!(left > 999.9, "{left}");
    }
}

#[test]
fn a_class_that_waits_for_its_bucket_leaves_the_pod_to_others() {
    let mut scene = limited(0.01, 1.0, BucketUnit::Requests, 100_000.0);
    scene.arrive(ask("chat"));
    scene.arrive(ask("chat"));
    assert!(scene.view("chat").self_limited);
    let other = scene.arrive(ask("batch"));
    assert!(scene.running(other));
}

#[test]
fn the_bucket_admits_its_rate_over_time() {
    let mut scene = limited(200.0, 1_000.0, BucketUnit::Tokens, 1_000.0);
    scene.run_with(300.0, |scene| {
        if scene.queued("chat") < 5 {
            scene.queue(ask("chat").tokens(50, 100).capped(150));
        }
    });
    let tokens: f64 = scene
        .jobs
        .values()
        .filter(|j| j.started.is_some())
        .map(|j| 50.0 + j.made)
        .sum();
    let allowed = 1_000.0 + 200.0 * 300.0;
    assert!(tokens <= allowed + 200.0, "{tokens} of {allowed}");
    assert!(tokens >= 0.95 * allowed, "{tokens} of {allowed}");
}
