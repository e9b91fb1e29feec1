//! The scripted engine shows a client what the script says, and the script what the client does.

use fairtide_testkit::{Answer, ScriptedEngine, eventually, http_get, http_post};
use http::StatusCode;
use std::{net::SocketAddr, time::Duration};
use tokio::task::JoinHandle;

const DEADLINE: Duration = Duration::from_secs(60);

fn post(engine: SocketAddr) -> JoinHandle<anyhow::Result<Answer>> {
    tokio::spawn(http_post(engine, "/v1/completions", &[], "{}"))
}

#[tokio::test]
async fn events_arrive_one_by_one() {
    let mut engine = ScriptedEngine::start().await.unwrap();
    let answer = post(engine.address());
    let call = engine.next(DEADLINE).await.unwrap();
    assert_eq!(call.json().unwrap(), serde_json::json!({}));
    let stream = call.stream();
    let mut answer = answer.await.unwrap().unwrap();
    for token in ["a", "b"] {
        stream.event(token);
        let piece = answer.piece().await.unwrap().unwrap();
        assert_eq!(piece, format!("data: {token}\n\n"));
    }
    assert_eq!(engine.active(), 1);
    stream.end();
    assert_eq!(answer.bytes().await.unwrap(), "data: [DONE]\n\n");
    eventually("the place is free", DEADLINE, async || {
        anyhow::ensure!(engine.active() == 0);
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!((engine.max_active(), engine.total()), (1, 1));
}

#[tokio::test]
async fn broken_stream_is_no_end() {
    let mut engine = ScriptedEngine::start().await.unwrap();
    let answer = post(engine.address());
    let stream = engine.next(DEADLINE).await.unwrap().stream();
    stream.event("a");
    let answer = answer.await.unwrap().unwrap();
    drop(stream);
    assert!(answer.bytes().await.is_err());
}

#[tokio::test]
async fn client_that_leaves_is_seen() {
    let mut engine = ScriptedEngine::start().await.unwrap();
    let answer = post(engine.address());
    let call = engine.next(DEADLINE).await.unwrap();
    answer.abort();
    call.gone(DEADLINE).await.unwrap();
    assert_eq!(engine.active(), 0);

    let answer = post(engine.address());
    let stream = engine.next(DEADLINE).await.unwrap().stream();
    drop(answer.await.unwrap().unwrap());
    stream.gone(DEADLINE).await.unwrap();
}

#[tokio::test]
async fn engine_that_is_down_refuses_and_comes_back() {
    let mut engine = ScriptedEngine::start().await.unwrap();
    engine.set_metrics("vllm:num_requests_waiting 0\n");
    let authority = engine.address().to_string();
    let answer = post(engine.address());
    let _call = engine.next(DEADLINE).await.unwrap();
    engine.go_down();
    assert!(answer.await.unwrap().is_err());
    eventually("it refuses", DEADLINE, async || {
        anyhow::ensure!(http_get(&authority, "/health").await.is_err());
        Ok(())
    })
    .await
    .unwrap();
    engine.come_up().await.unwrap();
    let (status, page) = http_get(&authority, "/metrics").await.unwrap();
    assert_eq!(status, StatusCode::OK);
    assert_eq!(page, "vllm:num_requests_waiting 0\n");
}
