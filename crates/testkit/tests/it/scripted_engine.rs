//! The scripted engine shows a client what the script says, and the script what the client does.

use bytes::Bytes;
use fairtide_testkit::{ScriptedEngine, eventually, http_get};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::{net::SocketAddr, time::Duration};
use tokio::{net::TcpStream, task::JoinHandle};

const DEADLINE: Duration = Duration::from_secs(60);

type Answer = JoinHandle<hyper::Result<Response<Incoming>>>;

async fn post(engine: SocketAddr) -> Answer {
    let stream = TcpStream::connect(engine).await.unwrap();
    tokio::spawn(async move {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::post("/v1/completions").body(Full::new(Bytes::from("{}")));
        sender.send_request(request.unwrap()).await
    })
}

#[tokio::test]
async fn events_arrive_one_by_one() {
    let mut engine = ScriptedEngine::start().await.unwrap();
    let answer = post(engine.address()).await;
    let call = engine.next(DEADLINE).await.unwrap();
    assert_eq!(call.json().unwrap(), serde_json::json!({}));
    let stream = call.stream();
    let mut body = answer.await.unwrap().unwrap().into_body();
    for token in ["a", "b"] {
        stream.event(token);
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(
            frame.into_data().unwrap(),
            format!("data: {token}\n\n").as_bytes()
        );
    }
    assert_eq!(engine.active(), 1);
    stream.end();
    assert_eq!(body.collect().await.unwrap().to_bytes(), "data: [DONE]\n\n");
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
    let answer = post(engine.address()).await;
    let stream = engine.next(DEADLINE).await.unwrap().stream();
    stream.event("a");
    let body = answer.await.unwrap().unwrap().into_body();
    drop(stream);
    assert!(body.collect().await.is_err());
}

#[tokio::test]
async fn client_that_leaves_is_seen() {
    let mut engine = ScriptedEngine::start().await.unwrap();
    let answer = post(engine.address()).await;
    let call = engine.next(DEADLINE).await.unwrap();
    answer.abort();
    call.gone(DEADLINE).await.unwrap();
    assert_eq!(engine.active(), 0);

    let answer = post(engine.address()).await;
    let stream = engine.next(DEADLINE).await.unwrap().stream();
    drop(answer.await.unwrap().unwrap());
    stream.gone(DEADLINE).await.unwrap();
}

#[tokio::test]
async fn engine_that_is_down_refuses_and_comes_back() {
    let mut engine = ScriptedEngine::start().await.unwrap();
    engine.set_metrics("vllm:num_requests_waiting 0\n");
    let authority = engine.address().to_string();
    let answer = post(engine.address()).await;
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
