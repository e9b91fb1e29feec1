//! What the sidecar says when it refuses.

use crate::support::{CHAT, Client, DEADLINE, Stage, Whole};
use anyhow::{Context, ensure};
use http::StatusCode;
use tokio::io::AsyncWriteExt;

const TWO: &str = "tier: Batch\nqueue: {maxRequests: 1}\nmatch: [{path: {type: Prefix, value: /}}]";
const ONE_SEAT: &str = crate::support::ONE_SEAT;

#[tokio::test]
async fn a_full_queue_is_told_in_the_shape_that_clients_know() -> anyhow::Result<()> {
    let stage = Stage::new(ONE_SEAT, &[("bulk", TWO)]).await?;
    let _running = stage.send(CHAT, &[], "{}").await?;
    stage.in_flight("bulk", 1.0).await?;
    let _waiting = stage.send(CHAT, &[], "{}").await?;
    stage.queued("bulk", 1.0).await?;

    let sent = stage
        .send(CHAT, &[("x-request-id", "r-1")], r#"{"stream":true}"#)
        .await?;
    let answer = sent.whole().await?;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-request-id"), Some("r-1"));
    assert_eq!(answer.header("x-fairtide-class"), Some("bulk"));
    assert_eq!(answer.header("x-fairtide-outcome"), Some("queue_full"));
    assert_eq!(answer.header("x-fairtide-reason"), Some("queue_requests"));
    assert_eq!(answer.header("connection"), Some("close"));
    let number =
        |name| -> anyhow::Result<u64> { Ok(answer.header(name).context("a header")?.parse()?) };
    let (seconds, millis) = (number("retry-after")?, number("retry-after-ms")?);
    assert!(
        (1..=60).contains(&seconds) && millis <= seconds * 1000,
        "{seconds} {millis}"
    );
    assert_eq!(number("x-fairtide-queue-ms")?, 0);
    let error = &answer.json()?["error"];
    assert_eq!(error["type"], "rate_limit_error");
    assert_eq!(error["code"], "queue_full");
    assert!(error["param"].is_null());
    let message = error["message"].as_str().context("a message")?;
    assert!(
        message.contains("bulk") && message.contains("queue.maxRequests"),
        "{message}"
    );
    assert!(message.contains(&format!("{seconds} s")), "{message}");

    // HTTP/2 has no such header; its one connection stays.
    let mut client = Client::http2(stage.address).await?;
    let answer = Whole::of(client.post(CHAT, &[], "{}").await?).await?;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.header("connection"), None);
    assert!(answer.header("retry-after").is_some());
    stage.outcome("bulk", "queue_full", 2.0).await
}

#[tokio::test]
async fn a_request_that_waited_its_ttl_is_refused_and_never_sent() -> anyhow::Result<()> {
    let spec = "tier: Interactive\nqueue: {ttl: 300ms}\nmatch: [{path: {type: Prefix, value: /}}]";
    let mut stage = Stage::new(ONE_SEAT, &[("chat", spec)]).await?;
    let _running = stage.send(CHAT, &[], "{}").await?;
    let _call = stage.engine.next(DEADLINE).await?;
    let answer = stage.send(CHAT, &[], "{}").await?.whole().await?;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.header("x-fairtide-outcome"), Some("queue_timeout"));
    let waited: u64 = answer
        .header("x-fairtide-queue-ms")
        .unwrap_or_default()
        .parse()?;
    assert!(waited >= 300, "{waited}");
    assert!(answer.header("retry-after").is_some());
    assert_eq!(stage.engine.total(), 1);
    Ok(())
}

#[tokio::test]
async fn an_empty_bucket_says_when_it_will_have_filled() -> anyhow::Result<()> {
    let spec = "tier: Interactive\nbucket: {rate: 1, per: 1h, unit: Requests}\n\
                match: [{path: {type: Prefix, value: /}}]";
    let mut stage = Stage::new("", &[("slow", spec)]).await?;
    let first = stage.send(CHAT, &[], "{}").await?;
    stage
        .engine
        .next(DEADLINE)
        .await?
        .answer(StatusCode::OK, "{}");
    first.whole().await?;
    let answer = stage.send(CHAT, &[], "{}").await?.whole().await?;
    assert_eq!(answer.header("x-fairtide-outcome"), Some("bucket_empty"));
    let seconds: u64 = answer.header("retry-after").unwrap_or_default().parse()?;
    assert!(
        (3000..=3600).contains(&seconds),
        "the true value: {seconds}"
    );
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    Ok(())
}

#[tokio::test]
async fn under_bypass_nobody_waits() -> anyhow::Result<()> {
    let spec = "limiter: {mode: Fixed, fixed: {maxRequests: 1}}";
    let mut stage = Stage::new(spec, &[("bulk", TWO)]).await?;
    let running = stage.send(CHAT, &[], "first").await?;
    let call = stage.engine.next(DEADLINE).await?;
    let waiting = stage.send(CHAT, &[], "second").await?;
    stage.queued("bulk", 1.0).await?;
    stage.folder.write(
        "pool.yaml",
        crate::support::pool(&format!("{spec}\nmode: Bypass")),
    )?;
    // The one that waits goes, and so do all that come.
    let second = stage.engine.next(DEADLINE).await?;
    ensure!(second.body == "second");
    let third = stage.send(CHAT, &[], "third").await?;
    let third_call = stage.engine.next(DEADLINE).await?;
    for call in [call, second, third_call] {
        call.answer(StatusCode::OK, "{}");
    }
    for sent in [running, waiting, third] {
        assert_eq!(sent.whole().await?.status, StatusCode::OK);
    }
    stage.outcome("bulk", "completed", 3.0).await?;
    let state = stage.debug("state").await?;
    assert_eq!(state["scheduler"]["inFlight"], 0);
    Ok(())
}

#[tokio::test]
async fn a_request_that_was_being_read_when_bypass_came_is_not_held() -> anyhow::Result<()> {
    let mut stage = Stage::new(ONE_SEAT, &[]).await?;
    let _running = stage.send(CHAT, &[], "first").await?;
    let _call = stage.engine.next(DEADLINE).await?;
    let mut upload = tokio::net::TcpStream::connect(stage.address).await?;
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nha");
    upload.write_all(head.as_bytes()).await?;
    // Its head has been read once it holds memory for its body.
    stage.until("body_bytes", 2.0).await?;
    let bypass = crate::support::pool(&format!("{ONE_SEAT}\nmode: Bypass"));
    stage.folder.write("pool.yaml", bypass)?;
    stage.until("policies_applied_total", 1.0).await?;
    upload.write_all(b"lf").await?;
    let second = stage.engine.next(DEADLINE).await?;
    ensure!(second.body == "half");
    Ok(())
}

#[tokio::test]
async fn a_class_is_named_by_a_trusted_peer_and_by_nobody_else() -> anyhow::Result<()> {
    let spec = "tier: Batch";
    for (cidrs, class) in [("[127.0.0.0/8]", "named"), ("[10.0.0.0/8]", "_default")] {
        let tenancy = format!("tenancy: {{trustedCIDRs: {cidrs}}}");
        let mut stage = Stage::new(&tenancy, &[("named", spec)]).await?;
        let sent = stage
            .send(CHAT, &[("x-fairtide-class", "named")], "{}")
            .await?;
        stage
            .engine
            .next(DEADLINE)
            .await?
            .answer(StatusCode::OK, "{}");
        assert_eq!(sent.whole().await?.header("x-fairtide-class"), Some(class));
    }
    Ok(())
}
