//! `kubectl apply` changes how a running sidecar orders and limits real requests.

use crate::scene::{self, Scene, apply, class, complete, kind, pool};
use fairtide_testkit::Installation;
use http::StatusCode;

#[tokio::test]
async fn raised_limit_lets_queued_requests_start() {
    let fairtide = Installation::shared().await.unwrap();
    let mut scene = Scene::set(fairtide, "limit", &pool("llama", 1)).await;
    let mut clients = Vec::new();
    let mut calls = Vec::new();
    clients.push(scene.post("any"));
    calls.push(scene.arrival().await);
    clients.push(scene.post("any"));
    clients.push(scene.post("any"));
    scene.queued("_default", 2).await;
    assert_eq!(scene.engine.total(), 1);

    apply(fairtide, "limit", &pool("llama", 3)).await;
    // None was answered: only the edit can have let them through.
    calls.push(scene.arrival().await);
    calls.push(scene.arrival().await);
    assert_eq!(scene.engine.active(), 3);
    for call in calls {
        call.answer(StatusCode::OK, scene::COMPLETION);
    }
    for client in clients {
        assert_eq!(client.await.unwrap().unwrap().status, StatusCode::OK);
    }
}

#[tokio::test]
async fn swapped_priorities_swap_the_order() {
    let fairtide = Installation::shared().await.unwrap();
    let low = class("red", "Interactive", "priority: 1");
    let high = class("blue", "Interactive", "priority: 2");
    let objects = pool("llama", 1) + &low + &high;
    let mut scene = Scene::set(fairtide, "order", &objects).await;
    for (edit, first, second) in [(None, "blue", "red"), (Some("priority: 3"), "red", "blue")] {
        let held = scene.post("red");
        let in_engine = scene.arrival().await;
        let red = scene.post("red");
        let blue = scene.post("blue");
        scene.queued("red", 1).await;
        scene.queued("blue", 1).await;
        if let Some(edit) = edit {
            apply(fairtide, "order", &class("red", "Interactive", edit)).await;
            scene.shows_class("red", "priority", 3).await;
        }
        complete(in_engine, held).await;
        let mut clients = [("red", red), ("blue", blue)];
        clients.sort_by_key(|(name, _)| *name != first);
        for (expected, (_, client)) in [first, second].into_iter().zip(clients) {
            let call = scene.arrival().await;
            assert_eq!(kind(&call), expected);
            assert_eq!(
                complete(call, client).await.header("x-fairtide-class"),
                expected
            );
        }
    }
}

#[tokio::test]
async fn added_bucket_refuses_with_the_time_to_come_back() {
    let fairtide = Installation::shared().await.unwrap();
    let objects = pool("llama", 8) + &class("jobs", "Batch", "");
    let mut scene = Scene::set(fairtide, "bucket", &objects).await;
    let bucket = "bucket: {rate: 1, per: 1h, unit: Requests}";
    apply(fairtide, "bucket", &class("jobs", "Batch", bucket)).await;
    scene.shows_class("jobs", "bucket/rate", 1).await;
    let client = scene.post("jobs");
    complete(scene.arrival().await, client).await;

    let refused = scene.post("jobs").await.unwrap().unwrap();
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.header("x-fairtide-outcome"), "bucket_empty");
    assert_eq!(refused.header("x-fairtide-class"), "jobs");
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((3_000..=3_600).contains(&seconds), "{seconds}");
    let body = refused.json().await.unwrap();
    assert!(body["error"]["message"].is_string(), "{body}");

    apply(fairtide, "bucket", &class("jobs", "Batch", "")).await;
    scene
        .shows_class("jobs", "bucket", serde_json::Value::Null)
        .await;
    let client = scene.post("jobs");
    complete(scene.arrival().await, client).await;
}

#[tokio::test]
async fn deleted_class_hands_its_queue_to_the_default_class() {
    let fairtide = Installation::shared().await.unwrap();
    let chat = class("chat", "Interactive", "");
    let pool = pool("llama", 1).replace("\n---", "\n  defaultClass: {name: chat}\n---");
    let objects = pool + &chat + &class("jobs", "Batch", "");
    let mut scene = Scene::set(fairtide, "deleted", &objects).await;
    let held = scene.post("chat");
    let in_engine = scene.arrival().await;
    let queued = scene.post("jobs");
    scene.queued("jobs", 1).await;

    let args = ["delete", "ftclass", "jobs", "-n", "deleted"];
    fairtide.api.kubectl(&args).await.unwrap();
    scene.queued("chat", 1).await;
    complete(in_engine, held).await;
    let call = scene.arrival().await;
    assert_eq!(kind(&call), "jobs");
    complete(call, queued).await;
}

#[tokio::test]
async fn bypass_stops_all_limits_at_once() {
    let fairtide = Installation::shared().await.unwrap();
    let mut scene = Scene::set(fairtide, "bypass", &pool("llama", 1)).await;
    let first = scene.post("any");
    let first_call = scene.arrival().await;
    let second = scene.post("any");
    scene.queued("_default", 1).await;
    let bypass = pool("llama", 1).replace("\n---", "\n  mode: Bypass\n---");
    apply(fairtide, "bypass", &bypass).await;
    let second_call = scene.arrival().await;
    complete(second_call, second).await;
    complete(first_call, first).await;
}
