use crate::scene::*;
use fairtide_scheduler::{BucketUnit, ClassSettings, Outcome, Reason, Tier};

/// Keeps a backlog of each ask, and lets the engine run.
fn saturate(scene: &mut Scene, asks: &[Ask<'_>], seconds: f64) {
    scene.run_with(seconds, |scene| {
        for ask in asks {
            let waits = scene.with(|job| {
                job.fate == Fate::Queued && job.class == ask.class && job.tenant == ask.tenant
            });
            for _ in waits.len()..20 {
                scene.queue(ask.clone());
            }
        }
    });
}

fn share(scene: &Scene, class: &str) -> f64 {
    scene.served(class) / scene.scheduler.snapshot(scene.now).served_cost
}

fn batch_class(name: &str, weight: u32) -> ClassSettings {
    ClassSettings {
        weight,
        ..class(name, Tier::Batch)
    }
}

#[test]
fn weights_divide_what_equals_are_served() {
    let classes = vec![batch_class("heavy", 3), batch_class("light", 1)];
    let mut scene = Scene::new(pod(16, classes));
    let asks = [ask("heavy").tokens(100, 200), ask("light").tokens(1500, 40)];
    saturate(&mut scene, &asks, 300.0);
    let got = share(&scene, "heavy");
    assert!((0.74..0.76).contains(&got), "{got}");
}

#[test]
fn tenants_share_by_tokens_and_not_by_requests() {
    let mut scene = Scene::new(pod(16, vec![batch()]));
    let asks = [
        ask("batch").tenant("short").tokens(500, 120),
        ask("batch").tenant("long").tokens(500, 900),
    ];
    saturate(&mut scene, &asks, 600.0);
    let cost = |tenant: &str| {
        let jobs = scene
            .jobs
            .values()
            .filter(|j| j.tenant == tenant && j.made > 0.0);
        jobs.map(|j| 500.0 + 4.0 * j.made).sum::<f64>()
    };
    let got = cost("short") / (cost("short") + cost("long"));
    assert!((0.49..0.51).contains(&got), "{got}");
}

#[test]
fn a_tenant_that_was_away_gets_no_back_pay() {
    let mut scene = Scene::new(pod(8, vec![batch()]));
    let stayed = ask("batch").tenant("stayed").tokens(10, 100);
    let away = ask("batch").tenant("away").tokens(10, 100);
    scene.arrive(away.clone());
    saturate(&mut scene, std::slice::from_ref(&stayed), 300.0);
    let before = (scene.made("stayed"), scene.made("away"));
    saturate(&mut scene, &[stayed, away], 60.0);
    let (stayed, away) = (
        scene.made("stayed") - before.0,
        scene.made("away") - before.1,
    );
    let got = away / (stayed + away);
    assert!((0.45..0.55).contains(&got), "{got}");
}

#[test]
fn a_class_that_was_limited_by_its_bucket_gets_no_back_pay() {
    let mut limited = batch_class("limited", 1);
    limited.bucket = bucket(20.0, 200.0, BucketUnit::Tokens);
    let mut scene = Scene::new(pod(8, vec![limited, batch_class("other", 1)]));
    let asks = [
        ask("limited").tokens(100, 100).capped(100),
        ask("other").tokens(100, 100),
    ];
    saturate(&mut scene, &asks, 600.0);
    // The bucket gives it 20 tokens a second, the rest is the other's, at every moment.
    let mut longest = std::time::Duration::ZERO;
    let starts = scene
        .started
        .iter()
        .filter(|id| scene.job(**id).class == "other");
    let times: Vec<_> = starts.filter_map(|id| scene.job(*id).started).collect();
    for pair in times.windows(2) {
        longest = longest.max(pair[1] - pair[0]);
    }
    assert!(
        longest <= secs(3.0),
        "the other waited {longest:?} for a start"
    );
}

#[test]
fn min_share_holds_under_interactive_pressure() {
    let mut floor = batch();
    floor.min_share = 10;
    let mut scene = Scene::new(pod(16, vec![chat(), floor]));
    let asks = [ask("chat").tokens(300, 60), ask("batch").tokens(1500, 300)];
    saturate(&mut scene, &asks, 300.0);
    let got = share(&scene, "batch");
    assert!((0.095..0.13).contains(&got), "{got}");
    let by_rule = scene.with(|j| j.class == "batch" && j.reason == Some(Reason::MinShare));
    assert!(!by_rule.is_empty());
}

#[test]
fn without_a_min_share_strict_priority_starves() {
    let mut scene = Scene::new(pod(16, vec![chat(), batch()]));
    let asks = [ask("chat").tokens(300, 60), ask("batch").tokens(1500, 300)];
    scene.arrive(asks[0].clone()); // so that the pod is never empty
    saturate(&mut scene, &asks, 300.0);
    let got = share(&scene, "batch");
    assert!(got < 0.02, "{got}");
}

#[test]
fn at_least_every_starts_one_under_strict_pressure() {
    let mut trickle = batch();
    trickle.at_least_every = Some(secs(20.0));
    let mut scene = Scene::new(pod(4, vec![chat(), trickle]));
    let asks = [ask("chat").tokens(300, 60), ask("batch").tokens(100, 50)];
    scene.arrive(asks[0].clone());
    saturate(&mut scene, &asks, 205.0);
    let due = scene.with(|j| j.reason == Some(Reason::AtLeastEvery));
    assert!((9..=11).contains(&due.len()), "{} starts", due.len());
}

#[test]
fn idle_capacity_belongs_to_whoever_wants_it() {
    let mut floor = batch();
    floor.min_share = 10;
    let mut scene = Scene::new(pod(16, vec![chat(), floor]));
    saturate(&mut scene, &[ask("batch").tokens(100, 100)], 120.0);
    assert_eq!(scene.in_flight("batch"), 15);
}

#[test]
fn answers_that_are_not_streamed_are_charged_while_they_run() {
    let mut scene = Scene::new(pod(8, vec![batch()]));
    scene.pace = 0.0; // nothing is seen of them
    let unseen = ask("batch").tenant("unseen").tokens(10, 1_000).unseen();
    for _ in 0..8 {
        scene.arrive(unseen.clone());
    }
    scene.run(10.0);
    let served = scene.served("batch");
    // 8 requests of 10 s at the assumed 20 tokens a second, at a cost of 4 each.
    assert!((6_000.0..6_600.0).contains(&served), "{served}");
    let first = scene.started[0];
    scene.end(first, Outcome::CancelledRunning);
    scene.run(0.1);
    assert!(
        scene.served("batch") < served,
        "what was not delivered is refunded"
    );
}

#[test]
fn a_cancelled_request_is_charged_what_was_delivered() {
    let mut scene = Scene::new(pod(4, vec![chat()]));
    let id = scene.arrive(ask("chat").tokens(1_000, 500));
    scene.end(id, Outcome::CancelledRunning);
    assert_eq!(scene.served("chat"), 0.0);
    let id = scene.arrive(ask("chat").tokens(1_000, 500));
    scene.run(1.0);
    scene.end(id, Outcome::CancelledRunning);
    assert_eq!(scene.served("chat"), 1_000.0 + 4.0 * 50.0);
}
