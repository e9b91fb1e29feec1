//! The last good policy stays in force: without operator, without API server, over restarts.

use crate::scene::{self, DEADLINE, Scene, apply, pool, post};
use fairtide_testkit::{Installation, ScriptedEngine, Sidecar, eventually};
use http::StatusCode;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::{sync::Notify, task::JoinSet};

/// Clients that post one request after the other.
const CLIENTS: usize = 6;

/// How long the engine works on a request.
const SERVICE: Duration = Duration::from_millis(5);

/// Requests that count as traffic.
const ENOUGH: usize = 60;

/// Offers and serves traffic until enough requests have completed, each of them well. Does
/// `midway` in the middle of it. Gives the most that were in the engine at once.
async fn traffic(
    engine: &mut ScriptedEngine,
    sidecar: &Sidecar,
    midway: impl AsyncFnOnce(),
) -> usize {
    engine.reset_max_active();
    let done = AtomicUsize::new(0);
    let half = Notify::new();
    let client = async || {
        while done.load(Ordering::Relaxed) < ENOUGH {
            let answer = post(sidecar.address(), "any").await.unwrap();
            assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.headers);
            answer.bytes().await.unwrap();
            if done.fetch_add(1, Ordering::Relaxed) == ENOUGH / 2 {
                half.notify_one();
            }
        }
    };
    let clients = futures::future::join_all((0..CLIENTS).map(|_| client()));
    let midway = async {
        half.notified().await;
        midway().await;
    };
    let serve = async {
        let mut running = JoinSet::new();
        loop {
            let call = engine.next(DEADLINE).await.unwrap();
            running.spawn(async {
                tokio::time::sleep(SERVICE).await;
                call.answer(StatusCode::OK, scene::COMPLETION);
            });
        }
    };
    tokio::select! {
        _ = futures::future::join(clients, midway) => {}
        never = serve => never,
    }
    engine.max_active()
}

#[tokio::test]
async fn killed_operator_changes_nothing_for_traffic() {
    let mut fairtide = Installation::start().await.unwrap();
    let mut scene = Scene::set(&fairtide, "killed", &pool("llama", 2)).await;
    let before = scene.sidecar.state().await.unwrap();
    let kill = async || fairtide.kill_operator();
    assert_eq!(traffic(&mut scene.engine, &scene.sidecar, kill).await, 2);
    let after = scene.sidecar.state().await.unwrap();
    assert_eq!(after["policy"]["version"], before["policy"]["version"]);

    // A restart while nobody can be asked: the policy comes from where it was kept.
    scene.sidecar.kill();
    scene.sidecar.start_again(DEADLINE).await.unwrap();
    scene.shows("/policy/source", "kept").await;
    scene
        .shows("/policy/version", after["policy"]["version"].clone())
        .await;
    assert_eq!(
        traffic(&mut scene.engine, &scene.sidecar, async || {}).await,
        2
    );

    // Edited while the operator was away.
    apply(&fairtide, "killed", &pool("llama", 4)).await;
    fairtide.start_operator().await.unwrap();
    scene.shows("/policy/document/limiter/maxRequests", 4).await;
    assert_eq!(
        traffic(&mut scene.engine, &scene.sidecar, async || {}).await,
        4
    );
}

#[tokio::test]
async fn absent_api_server_changes_nothing_for_traffic() {
    let mut fairtide = Installation::start().await.unwrap();
    let mut scene = Scene::set(&fairtide, "away", &pool("llama", 2)).await;
    fairtide.api.stop();
    scene.sidecar.kill();
    scene.sidecar.start_again(DEADLINE).await.unwrap();
    assert_eq!(
        traffic(&mut scene.engine, &scene.sidecar, async || {}).await,
        2
    );

    fairtide.api.start_again().await.unwrap();
    apply(&fairtide, "away", &pool("llama", 3)).await;
    scene.shows("/policy/document/limiter/maxRequests", 3).await;
    let what = "the operator has seen its ACK";
    eventually(what, DEADLINE, async || {
        let pods = fairtide.pods().await?;
        let pod = pods.as_array().and_then(|pods| pods.first());
        let acked =
            pod.is_some_and(|pod| pod["acked"] == pod["wanted"] && pod["wanted"].is_string());
        anyhow::ensure!(acked, "{pods}");
        Ok(())
    })
    .await
    .unwrap();
}
