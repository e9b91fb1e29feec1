//! The end of a pod, and what only looks like it.

use super::*;

#[tokio::test]
async fn a_terminating_pod_finishes_its_streams_before_the_engine_stops() -> anyhow::Result<()> {
    let mut pod = Pod::start("vllm-image-args", short(3, 60)).await?;
    pod.until_ready(StatusCode::OK).await?;
    let running = pod.ask(STREAMED).await?;
    let stream = pod.engine.next(DEADLINE).await?.stream();
    stream.event("{}");
    let (mut running, _client) = running.await??;

    pod.mark().await?;
    pod.until("/pod/phase", json!("lame_duck")).await?;
    assert_eq!(pod.ready().await?, StatusCode::OK, "it is still routed to");
    let admin = pod.admin.clone();
    let hook = tokio::spawn(async move { http_get(&admin, "/drain/wait").await });
    let late = pod.ask("{}").await?;
    let call = pod.engine.next(DEADLINE).await?;
    call.answer(StatusCode::OK, "{}");
    let late = late.await??.0;
    assert_eq!(late.status(), StatusCode::OK);
    assert_eq!(late.headers()["connection"], "close");

    pod.until("/pod/phase", json!("closing")).await?;
    assert_eq!(pod.ready().await?, StatusCode::SERVICE_UNAVAILABLE);
    let refused = pod.ask("{}").await?.await??.0;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["x-fairtide-outcome"], "draining");
    assert!(refused.headers().contains_key("retry-after"));
    assert!(!hook.is_finished(), "a stream runs");

    stream.end();
    let text = running.body_mut().collect().await?.to_bytes();
    assert!(text.ends_with(b"data: [DONE]\n\n"), "{text:?}");
    assert_eq!(hook.await??.0, StatusCode::OK);
    pod.until("/pod/phase", json!("drained")).await?;
    // The engine stops, then the sidecar is told to go.
    pod.engine.go_down();
    pod.process.signal("TERM")?;
    assert_eq!(pod.process.wait(DEADLINE).await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_stream_that_outlasts_the_grace_period_is_told_so() -> anyhow::Result<()> {
    let mut pod = Pod::start("vllm-image-args", short(0, 4)).await?;
    pod.until_ready(StatusCode::OK).await?;
    let running = pod.ask(STREAMED).await?;
    let stream = pod.engine.next(DEADLINE).await?.stream();
    stream.event("{}");
    let (mut running, _client) = running.await??;
    pod.mark().await?;
    let mut text = Vec::new();
    let broken = loop {
        match running.body_mut().frame().await {
            Some(Ok(frame)) => text.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Some(Err(_)) => break true,
            None => break false,
        }
    };
    let text = String::from_utf8(text)?;
    assert!(broken, "no clean end: {text}");
    let last = text.trim_end().rsplit("\n\n").next().context("an event")?;
    let last: Value = serde_json::from_str(last.trim_start_matches("data: "))?;
    assert_eq!(last["error"]["code"], "draining");
    stream.gone(DEADLINE).await?;
    let (status, _) = http_get(&pod.admin, "/drain/wait").await?;
    assert_eq!(status, StatusCode::OK);
    let (_, page) = http_get(&pod.admin, "/metrics").await?;
    let page = String::from_utf8(page.to_vec())?;
    assert!(page.contains(r#"outcome="draining"} 1"#), "{page}");
    Ok(())
}

#[tokio::test]
async fn an_engine_that_is_restarted_alone_finds_its_queue_again() -> anyhow::Result<()> {
    let mut pod = Pod::start("vllm-image-args", |_| {}).await?;
    pod.until_ready(StatusCode::OK).await?;
    let admin = pod.admin.clone();
    let hook = tokio::spawn(async move { http_get(&admin, "/drain/wait").await });
    pod.until("/pod/engineRestart", json!(true)).await?;
    let held = pod.ask("held").await?;
    let (status, text) = hook.await??;
    assert_eq!(status, StatusCode::OK);
    assert!(text.starts_with(b"the pod isn't"), "{text:?}");
    pod.until("/scheduler/classes/0/queued", json!(1)).await?;
    pod.engine.go_down();
    pod.until_ready(StatusCode::SERVICE_UNAVAILABLE).await?;
    pod.engine.come_up().await?;
    let call = pod.engine.next(DEADLINE).await?;
    assert_eq!(call.body, "held");
    call.answer(StatusCode::OK, "{}");
    assert_eq!(held.await??.0.status(), StatusCode::OK);
    pod.until_ready(StatusCode::OK).await?;
    pod.until("/pod/engineRestart", json!(false)).await
}

#[tokio::test]
async fn whoever_asks_the_drain_hook_for_fun_ends_nothing() -> anyhow::Result<()> {
    let mut pod = Pod::start("vllm-image-args", |_| {}).await?;
    pod.until_ready(StatusCode::OK).await?;
    for _ in 0..2 {
        let (status, _) = http_get(&pod.admin, "/drain/wait").await?;
        assert_eq!(status, StatusCode::OK);
        let asked = pod.ask("{}").await?;
        let call = pod.engine.next(DEADLINE).await?;
        call.answer(StatusCode::OK, "{}");
        assert_eq!(asked.await??.0.status(), StatusCode::OK);
        assert_eq!(pod.ready().await?, StatusCode::OK);
        pod.until("/pod/engineRestart", json!(false)).await?;
    }
    assert_eq!(pod.state().await?["pod"]["phase"], "serving");
    Ok(())
}

#[tokio::test]
async fn an_http2_client_is_told_to_go_elsewhere_and_keeps_its_stream() -> anyhow::Result<()> {
    let mut pod = Pod::start("vllm-image-args", short(0, 60)).await?;
    pod.until_ready(StatusCode::OK).await?;
    let mut client = Client::http2(pod.address).await?;
    let request = client.request(Method::POST, CHAT, &[], STREAMED)?;
    let begun = async {
        let stream = pod.engine.next(DEADLINE).await?.stream();
        stream.event("{}");
        anyhow::Ok(stream)
    };
    let (answer, stream) = tokio::join!(client.send(request), begun);
    let stream = stream?;
    let answer = answer?.into_body();

    pod.mark().await?;
    pod.until("/pod/phase", json!("closing")).await?;
    eventually("the client knows", DEADLINE, async || {
        let answer = client.get("/v1/models").await;
        ensure!(answer.is_err(), "it may still ask here");
        Ok(())
    })
    .await?;
    stream.end();
    let text = answer.collect().await?.to_bytes();
    assert!(text.ends_with(b"data: [DONE]\n\n"), "{text:?}");
    Ok(())
}

#[tokio::test]
async fn a_pod_that_outlives_its_end_serves_again() -> anyhow::Result<()> {
    let mut pod = Pod::start("vllm-image-args", short(0, 4)).await?;
    pod.until_ready(StatusCode::OK).await?;
    pod.mark().await?;
    pod.until("/pod/phase", json!("drained")).await?;
    let refused = pod.ask("{}").await?.await??.0;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);

    pod.until_ready(StatusCode::OK).await?;
    pod.until("/pod/phase", json!("serving")).await?;
    let asked = pod.ask("{}").await?;
    let call = pod.engine.next(DEADLINE).await?;
    call.answer(StatusCode::OK, "{}");
    assert_eq!(asked.await??.0.status(), StatusCode::OK);
    // And it can be told to end once more.
    pod.mark().await?;
    pod.until("/pod/phase", json!("drained")).await
}
