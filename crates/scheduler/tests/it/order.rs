use crate::scene::*;
use fairtide_scheduler::{EngineFacts, Limit, Outcome, Reason, Tier};

#[test]
fn the_next_free_seat_goes_to_interactive_work() {
    let mut scene = Scene::new(pod(1, vec![chat(), batch()]));
    let first = scene.arrive(ask("batch"));
    for _ in 0..3 {
        scene.arrive(ask("batch"));
    }
    let chat = scene.arrive(ask("chat"));
    assert!(!scene.running(chat), "the only seat is taken");
    scene.end(first, Outcome::Completed);
    assert!(scene.running(chat));
}

#[test]
fn batch_leaves_seats_free_for_interactive_work() {
    let mut scene = Scene::new(pod(16, vec![chat(), batch()]));
    for _ in 0..40 {
        scene.arrive(ask("batch").tokens(100, 5_000));
    }
    assert_eq!(scene.in_flight("batch"), 12, "a quarter is kept at first");
    let ids: Vec<_> = (0..4).map(|_| scene.arrive(ask("chat"))).collect();
    assert!(ids.iter().all(|&id| scene.running(id)));
    scene.run(60.0);
    assert_eq!(
        scene.in_flight("batch"),
        15,
        "without chat one seat is kept"
    );
}

#[test]
fn seats_are_kept_anew_after_requests_went_past_the_scheduler() {
    let mut scene = Scene::new(pod(16, vec![chat(), batch()]));
    scene.run(60.0);
    scene.scheduler.restart_headroom(scene.now);
    for _ in 0..40 {
        scene.arrive(ask("batch").tokens(100, 5_000));
    }
    assert_eq!(scene.in_flight("batch"), 12, "a quarter is kept");
}

#[test]
fn reserved_seats_are_a_floor() {
    let mut settings = pod(16, vec![chat(), batch()]);
    settings.reserved_seats = 10;
    let mut scene = Scene::new(settings);
    for _ in 0..40 {
        scene.arrive(ask("batch").tokens(100, 100_000));
    }
    scene.run(60.0);
    assert_eq!(scene.in_flight("batch"), 6);
}

#[test]
fn a_pool_of_batch_alone_keeps_no_seat_free() {
    let mut scene = Scene::new(pod(4, vec![batch()]));
    for _ in 0..9 {
        scene.arrive(ask("batch"));
    }
    assert_eq!(scene.in_flight("batch"), 4);
}

#[test]
fn while_the_seats_are_unknown_no_seat_rule_binds() {
    let mut settings = pod(1, vec![chat(), batch()]);
    settings.limit = Limit::default();
    let mut scene = Scene::new(settings);
    for _ in 0..50 {
        scene.arrive(ask("batch").tokens(100, 10_000));
    }
    assert_eq!(scene.in_flight("batch"), 50);
    let seats = EngineFacts {
        seats: Some(16),
        ..EngineFacts::default()
    };
    scene.scheduler.set_engine(seats, scene.now);
    assert!(!{
        let id = scene.arrive(ask("batch"));
        scene.running(id)
    });
}

#[test]
fn a_batch_class_may_have_the_higher_priority() {
    let mut urgent = class("urgent", Tier::Batch);
    urgent.priority = 200;
    let mut scene = Scene::new(pod(1, vec![chat(), urgent]));
    let first = scene.arrive(ask("chat"));
    scene.arrive(ask("chat"));
    let job = scene.arrive(ask("urgent"));
    scene.end(first, Outcome::Completed);
    // Its one seat is reserved for interactive work, so that only an empty pod takes it.
    assert!(scene.running(job), "{:?}", scene.job(job));
}

#[test]
fn one_request_is_admitted_whatever_its_size() {
    let mut settings = pod(8, vec![chat(), batch()]);
    settings.limit.max_tokens = Some(1_000);
    let mut scene = Scene::new(settings);
    let huge = scene.arrive(ask("batch").tokens(50_000, 10));
    assert_eq!(scene.job(huge).reason, Some(Reason::EmptyPod));
    let small = scene.arrive(ask("chat"));
    assert!(!scene.running(small), "the fixed limit binds chat too");
    scene.end(huge, Outcome::Completed);
    assert!(scene.running(small));
}

#[test]
fn a_head_that_does_not_fit_is_passed_by_eight_and_then_waits_no_longer() {
    let mut settings = pod(100, vec![chat()]);
    settings.limit.max_tokens = Some(10_000);
    let mut scene = Scene::new(settings);
    let mut small = vec![scene.arrive(ask("chat").tenant("small").tokens(4_000, 10_000))];
    let huge = scene.arrive(ask("chat").tenant("huge").tokens(9_000, 10));
    for n in 0..20 {
        let tenant = format!("small-{n}");
        small.push(scene.arrive(ask("chat").tenant(&tenant).tokens(100, 10_000)));
    }
    let passed = small.iter().filter(|&&id| scene.running(id)).count();
    assert_eq!(passed, 1 + 8);
    assert!(!scene.running(huge));
    for id in small
        .iter()
        .copied()
        .filter(|&id| scene.running(id))
        .collect::<Vec<_>>()
    {
        scene.end(id, Outcome::Completed);
    }
    assert!(scene.running(huge), "the pod was emptied for it");
}

#[test]
fn past_half_its_ttl_a_head_lets_nobody_pass() {
    let mut settings = pod(100, vec![chat()]);
    settings.limit.max_tokens = Some(10_000);
    settings.classes[0].queue.ttl = secs(20.0);
    let mut scene = Scene::new(settings);
    scene.pace = 1.0;
    scene.arrive(ask("chat").tenant("small").tokens(4_000, 10_000));
    scene.arrive(ask("chat").tenant("huge").tokens(9_000, 10));
    let early = scene.arrive(ask("chat").tenant("early"));
    assert!(scene.running(early));
    scene.run(11.0);
    let late = scene.arrive(ask("chat").tenant("late"));
    assert!(!scene.running(late));
}

#[test]
fn a_batch_head_that_only_the_reserve_stops_blocks_nobody() {
    let mut settings = pod(8, vec![chat(), batch()]);
    settings.classes[1].priority = 100;
    settings.classes[1].queue.ttl = secs(4.0);
    let mut scene = Scene::new(settings);
    for _ in 0..12 {
        scene.arrive(ask("batch").tokens(100, 100_000));
    }
    scene.run(3.0);
    let chat = scene.arrive(ask("chat"));
    assert!(scene.running(chat));
}

#[test]
fn the_kv_cache_is_never_overfilled_but_by_a_single_request() {
    let mut scene = Scene::new(pod(100, vec![chat()]));
    let facts = EngineFacts {
        kv_tokens: Some(5_000),
        ..EngineFacts::default()
    };
    scene.scheduler.set_engine(facts, scene.now);
    for n in 0..30 {
        let tenant = format!("t{n}");
        scene.arrive(ask("chat").tenant(&tenant).tokens(1_000, 10_000));
    }
    let snapshot = scene.scheduler.snapshot(scene.now);
    assert!(snapshot.in_flight_tokens <= 5_000, "{snapshot:?}");
    assert!(snapshot.in_flight >= 3, "{snapshot:?}");
}

#[test]
fn own_limits_of_a_class_hold_and_let_one_through() {
    for narrow in [
        |c: &mut fairtide_scheduler::ClassSettings| c.max_in_flight = Some(2),
        |c: &mut fairtide_scheduler::ClassSettings| c.max_share = Some(20),
    ] {
        let mut narrowed = batch();
        narrow(&mut narrowed);
        let mut scene = Scene::new(pod(10, vec![chat(), narrowed]));
        for _ in 0..20 {
            scene.arrive(ask("batch").tokens(100, 10_000));
        }
        assert_eq!(scene.in_flight("batch"), 2);
        assert!(scene.view("batch").self_limited);
    }
    let mut narrowed = batch();
    narrowed.max_share = Some(1);
    let mut scene = Scene::new(pod(10, vec![chat(), narrowed]));
    for _ in 0..20 {
        scene.arrive(ask("batch").tokens(100, 10_000));
    }
    assert_eq!(scene.in_flight("batch"), 1, "one is always let through");
}

#[test]
fn a_self_limited_class_does_not_hold_up_its_neighbours() {
    let mut limited = class("limited", Tier::Batch);
    limited.max_in_flight = Some(1);
    limited.priority = 10;
    let mut scene = Scene::new(pod(10, vec![chat(), batch(), limited]));
    for _ in 0..20 {
        scene.arrive(ask("limited").tokens(100, 100_000));
    }
    let other = scene.arrive(ask("batch"));
    assert!(scene.running(other));
}
