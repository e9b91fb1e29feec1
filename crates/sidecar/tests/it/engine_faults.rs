//! Engines that refuse, break off, or answer with errors.

use crate::support::{CHAT, Client, DEADLINE, Stage, Whole};
use fairtide_testkit::eventually;
use http::{Method, StatusCode};
use http_body_util::BodyExt;

const STREAMED: &str = r#"{"stream":true}"#;

/// The port is free only when the task that held it has ended.
async fn come_up(stage: &mut Stage) -> anyhow::Result<()> {
    eventually("the engine listens", DEADLINE, async || {
        stage.engine.come_up().await
    })
    .await
}

async fn restart(stage: &mut Stage) -> anyhow::Result<()> {
    stage.engine.go_down();
    come_up(stage).await
}

#[tokio::test]
async fn an_engine_that_refuses_the_connection_is_unavailable() -> anyhow::Result<()> {
    let mut stage = Stage::new("", &[]).await?;
    stage.engine.go_down();
    let answer = stage.send(CHAT, &[], "{}").await?.whole().await?;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        answer.header("x-fairtide-outcome"),
        Some("engine_unavailable")
    );
    assert_eq!(answer.header("x-fairtide-reason"), Some("engine_connect"));
    assert_eq!(answer.header("connection"), Some("close"));
    let seconds: u64 = answer.header("retry-after").unwrap_or_default().parse()?;
    assert!((5..=60).contains(&seconds), "{seconds}");
    assert_eq!(answer.json()?["error"]["code"], "engine_unavailable");
    let (status, _) = stage.client().await?.get("/health").await?;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    stage.outcome("_default", "engine_unavailable", 1.0).await?;
    come_up(&mut stage).await?;
    let sent = stage.send(CHAT, &[], "{}").await?;
    stage
        .engine
        .next(DEADLINE)
        .await?
        .answer(StatusCode::OK, "{}");
    assert_eq!(sent.whole().await?.status, StatusCode::OK);
    Ok(())
}

#[tokio::test]
async fn an_engine_that_dies_before_it_answers_has_failed() -> anyhow::Result<()> {
    let mut stage = Stage::new("", &[]).await?;
    let sent = stage.send(CHAT, &[], "{}").await?;
    drop(stage.engine.next(DEADLINE).await?);
    let answer = sent.whole().await?;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert_eq!(answer.header("x-fairtide-outcome"), Some("engine_failed"));
    assert_eq!(answer.json()?["error"]["code"], "engine_failed");
    assert_eq!(stage.engine.total(), 1, "never sent twice");
    stage.outcome("_default", "engine_failed", 1.0).await
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_seen_as_broken() -> anyhow::Result<()> {
    let mut stage = Stage::new("", &[]).await?;
    let sent = stage.send(CHAT, &[], STREAMED).await?;
    let streaming = stage.engine.next(DEADLINE).await?.stream();
    streaming.event("one");
    streaming.event("two");
    let mut answer = sent.begun().await?;
    answer.read(b"data: one\n\ndata: two\n\n").await?;
    drop(streaming);
    let (rest, clean) = answer.rest().await?;
    assert!(!clean, "a short stream would pass for a whole one");
    assert!(rest.is_empty());
    stage.outcome("_default", "engine_failed", 1.0).await?;
    stage.in_flight("_default", 0.0).await
}

#[tokio::test]
async fn what_came_before_a_stream_broke_is_delivered() -> anyhow::Result<()> {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
        transfer-encoding: chunked\r\n\r\n12\r\ndata: last words\n\n\r\n";
    for http2 in [false, true] {
        let mut stage = Stage::new("", &[]).await?;
        stage.answer_all(ANSWER).await?;
        let mut client = match http2 {
            false => Client::http1(stage.address).await?,
            true => Client::http2(stage.address).await?,
        };
        let mut body = client.post(CHAT, &[], STREAMED).await?.into_body();
        let mut got = Vec::new();
        let clean = loop {
            match body.frame().await {
                Some(Ok(frame)) => got.extend_from_slice(frame.data_ref().map_or(&[], |d| d)),
                Some(Err(_)) => break false,
                None => break true,
            }
        };
        assert!(!clean, "http2: {http2}");
        assert_eq!(got, b"data: last words\n\n", "http2: {http2}");
        stage.outcome("_default", "engine_failed", 1.0).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_engines_own_errors_pass_unchanged() -> anyhow::Result<()> {
    let mut stage = Stage::new("", &[]).await?;
    let body =
        r#"{"error":{"message":"busy","type":"Service Unavailable","param":null,"code":503}}"#;
    for (count, status) in [(1.0, 503), (2.0, 400), (3.0, 500), (4.0, 429)] {
        let status = StatusCode::from_u16(status)?;
        let sent = stage.send(CHAT, &[], STREAMED).await?;
        stage.engine.next(DEADLINE).await?.answer(status, body);
        let answer = sent.whole().await?;
        assert_eq!(answer.status, status);
        assert_eq!(answer.body, body);
        assert_eq!(answer.header("x-fairtide-outcome"), Some("engine_rejected"));
        assert_eq!(answer.header("x-fairtide-reason"), Some("engine_status"));
        assert_eq!(answer.header("retry-after"), None, "not ours to say");
        stage.outcome("_default", "engine_rejected", count).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_error_inside_a_stream_is_a_failure_and_passes_unchanged() -> anyhow::Result<()> {
    let mut stage = Stage::new("", &[]).await?;
    let sent = stage.send(CHAT, &[], STREAMED).await?;
    let streaming = stage.engine.next(DEADLINE).await?.stream();
    streaming.event(r#"{"error":{"message":"EngineCore encountered an issue"}}"#);
    streaming.end();
    let answer = sent.whole().await?;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.ends_with(b"issue\"}}\n\ndata: [DONE]\n\n"));
    stage.outcome("_default", "engine_failed", 1.0).await
}

#[tokio::test]
async fn an_idle_connection_that_the_engine_closed_costs_no_request() -> anyhow::Result<()> {
    let mut stage = Stage::new("", &[]).await?;
    for _ in 0..3 {
        let mut client = stage.client().await?;
        let request = client.request(Method::POST, CHAT, &[], "{}")?;
        let answering = async {
            let call = stage.engine.next(DEADLINE).await?;
            call.answer(StatusCode::OK, "{}");
            anyhow::Ok(())
        };
        let (response, answered) = tokio::join!(client.send(request), answering);
        answered?;
        assert_eq!(Whole::of(response?).await?.status, StatusCode::OK);
        // The engine restarts: whatever is pooled is dead.
        restart(&mut stage).await?;
    }
    Ok(())
}
