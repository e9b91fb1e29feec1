//! What passes: bytes, events, headers.

use crate::support::{CHAT, Client, DEADLINE, ONE_SEAT, Stage, Whole};
use anyhow::{Context, ensure};
use fairtide_testkit::eventually;
use http::{Method, StatusCode};

const STREAMED: &str =
    r#"{"model":"tiny","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;

#[tokio::test]
async fn pieces_of_a_stream_arrive_unchanged_and_each_at_once() -> anyhow::Result<()> {
    let mut stage = Stage::new("", &[]).await?;
    let mut client = stage.send(CHAT, &[], STREAMED).await?;
    let _ = &mut client;
    let streaming = stage.engine.next(DEADLINE).await?.stream();
    let mut answer = client.begun().await?;
    // Each is read before the next is sent, so nothing can have waited for what follows.
    let emoji = "data: {\"choices\":[{\"delta\":{\"content\":\"\u{1F30A}\"}}]}\r\n\r\n".as_bytes();
    let mut pieces: Vec<&[u8]> = vec![
        b"data: {\"choi",
        b"ces\":[]}\n\n",
        b": warm\n",
        b"data:x\n\n",
    ];
    pieces.extend(emoji.chunks(1));
    for piece in pieces {
        streaming.bytes(piece.to_vec());
        answer.read(piece).await?;
    }
    streaming.end();
    let (rest, clean) = answer.rest().await?;
    ensure!(clean && rest == b"data: [DONE]\n\n");
    stage.outcome("_default", "completed", 1.0).await
}

#[tokio::test]
async fn a_streamed_answer_is_told_by_its_headers() -> anyhow::Result<()> {
    let mut stage = Stage::new("", &[]).await?;
    let sent = stage
        .send(CHAT, &[("x-request-id", "mine-1")], STREAMED)
        .await?;
    let call = stage.engine.next(DEADLINE).await?;
    ensure!(call.head.headers["x-request-id"] == "mine-1");
    call.stream().end();
    let answer = sent.whole().await?;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("x-request-id"), Some("mine-1"));
    assert_eq!(answer.header("x-fairtide-class"), Some("_default"));
    assert_eq!(answer.header("x-fairtide-reason"), Some("empty_pod"));
    assert!(answer.header("x-fairtide-queue-ms").is_some());
    assert_eq!(answer.header("x-fairtide-outcome"), None, "not known yet");
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    Ok(())
}

#[tokio::test]
async fn the_request_arrives_as_it_was_sent_but_for_this_hop_and_privileges() -> anyhow::Result<()>
{
    let mut stage = Stage::new("", &[]).await?;
    let headers = [
        ("host", "model.example"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("te", "trailers"),
        ("x-vllm-priority", "-9"),
        ("x-fairtide-class", "top"),
        ("accept-encoding", "gzip"),
        ("X-Kept", "a"),
        ("x-kept", "b"),
    ];
    let body = "{ \"messages\" : [ ] ,\t\"max_tokens\":1e0, \"x\":\"\\ud83d\" }";
    let sent = stage.send("/v1/completions?a=%20b", &headers, body).await?;
    let call = stage.engine.next(DEADLINE).await?;
    ensure!(call.body == body);
    ensure!(
        call.head.uri == "/v1/completions?a=%20b",
        "{}",
        call.head.uri
    );
    let seen = &call.head.headers;
    ensure!(seen["host"] == "model.example");
    ensure!(seen["accept-encoding"] == "gzip");
    ensure!(seen.get_all("x-kept").iter().eq(["a", "b"]));
    for gone in [
        "connection",
        "x-hop",
        "te",
        "x-vllm-priority",
        "x-fairtide-class",
    ] {
        ensure!(!seen.contains_key(gone), "{gone}");
    }
    call.answer(StatusCode::OK, "{}");
    ensure!(sent.whole().await?.status == StatusCode::OK);
    Ok(())
}

#[tokio::test]
async fn http2_clients_are_served_on_the_same_port() -> anyhow::Result<()> {
    let mut stage = Stage::new("", &[]).await?;
    let mut client = Client::http2(stage.address).await?;
    let request = client.request(Method::POST, CHAT, &[], STREAMED)?;
    let answer = tokio::spawn(async move { Whole::of(client.send(request).await?).await });
    let call = stage.engine.next(DEADLINE).await?;
    ensure!(call.head.headers["host"] == stage.address.to_string());
    let streaming = call.stream();
    streaming.event("{}");
    streaming.end();
    let answer = answer.await??;
    ensure!(answer.status == StatusCode::OK);
    ensure!(answer.body == "data: {}\n\ndata: [DONE]\n\n");
    Ok(())
}

#[tokio::test]
async fn what_only_reads_passes_a_full_queue() -> anyhow::Result<()> {
    let stage = &mut Stage::new(ONE_SEAT, &[]).await?;
    stage.engine.set_metrics("vllm:num_requests_running 1\n");
    let _running = stage.send(CHAT, &[], "{}").await?;
    stage.in_flight("_default", 1.0).await?;
    let _waiting = stage.send(CHAT, &[], "{}").await?;
    stage.queued("_default", 1.0).await?;
    let mut client = stage.client().await?;
    for path in ["/health", "/v1/models", "/ping", "/anything"] {
        assert_eq!(client.get(path).await?.0, StatusCode::OK, "{path}");
    }
    let (_, page) = client.get("/metrics").await?;
    assert_eq!(
        page, "vllm:num_requests_running 1\n",
        "the engine's own page"
    );
    assert_eq!(stage.metric("pass_through_requests_total").await?, 5.0);
    assert_eq!(stage.engine.total(), 1, "the queue did not move");
    Ok(())
}

#[tokio::test]
async fn the_seat_is_free_when_the_client_has_its_last_byte() -> anyhow::Result<()> {
    let mut stage = Stage::new(ONE_SEAT, &[]).await?;
    let mut client = stage.client().await?;
    for round in 0..20 {
        let request = client.request(Method::POST, CHAT, &[], STREAMED)?;
        let answering = async {
            let call = stage.engine.next(DEADLINE).await?;
            match round % 2 {
                0 => call.answer(StatusCode::OK, r#"{"usage":{"completion_tokens":1}}"#),
                _ => call.stream().end(),
            }
            anyhow::Ok(())
        };
        let (response, answered) = tokio::join!(client.send(request), answering);
        answered?;
        Whole::of(response?).await?;
        let state = stage.debug("state").await?;
        assert_eq!(state["scheduler"]["inFlight"], 0, "round {round}");
    }
    stage.outcome("_default", "completed", 20.0).await
}

#[tokio::test]
async fn an_answer_of_known_length_completes_with_its_last_byte() -> anyhow::Result<()> {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
        content-length: 33\r\n\r\n{\"usage\":{\"completion_tokens\":7}}";
    let mut stage = Stage::new(ONE_SEAT, &[]).await?;
    stage.answer_all(ANSWER).await?;
    for round in 1..=5 {
        let answer = stage.send(CHAT, &[], "{}").await?.whole().await?;
        assert_eq!(answer.header("content-length"), Some("33"));
        let state = stage.debug("state").await?;
        assert_eq!(state["scheduler"]["inFlight"], 0, "round {round}");
    }
    stage.outcome("_default", "completed", 5.0).await?;
    let output = "tokens_total{class=\"_default\",kind=\"output\"}";
    stage.until(output, 35.0).await
}

#[tokio::test]
async fn after_done_the_seat_is_free_though_the_engine_holds_on() -> anyhow::Result<()> {
    let mut stage = Stage::new(ONE_SEAT, &[]).await?;
    let sent = stage.send(CHAT, &[], STREAMED).await?;
    let streaming = stage.engine.next(DEADLINE).await?.stream();
    streaming.event("[DONE]");
    let mut answer = sent.begun().await?;
    answer.read(b"data: [DONE]\n\n").await?;
    stage.outcome("_default", "completed", 1.0).await?;
    stage.in_flight("_default", 0.0).await?;
    drop(answer);
    streaming.gone(DEADLINE).await?;
    assert_eq!(stage.metric(CANCELLED).await?, 0.0, "one outcome is enough");
    Ok(())
}

const CANCELLED: &str = "requests_total{class=\"_default\",outcome=\"cancelled_running\"}";

#[tokio::test]
async fn tokens_are_counted_from_events_and_from_usage() -> anyhow::Result<()> {
    let mut stage = Stage::new("", &[]).await?;
    let sent = stage.send(CHAT, &[], STREAMED).await?;
    let streaming = stage.engine.next(DEADLINE).await?.stream();
    streaming.event(r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#);
    for _ in 0..3 {
        streaming.event(r#"{"choices":[{"delta":{"content":""}}]}"#);
    }
    streaming.end();
    sent.whole().await?;
    let output = "tokens_total{class=\"_default\",kind=\"output\"}";
    stage.until(output, 3.0).await?;

    let sent = stage.send(CHAT, &[], "{}").await?;
    let call = stage.engine.next(DEADLINE).await?;
    call.answer(
        StatusCode::OK,
        r#"{"usage":{"prompt_tokens":100,"completion_tokens":39}}"#,
    );
    sent.whole().await?;
    stage.until(output, 42.0).await?;
    stage
        .until("ttft_seconds_count{class=\"_default\"}", 1.0)
        .await
}

#[tokio::test]
async fn the_engine_is_asked_what_it_holds() -> anyhow::Result<()> {
    let stage = Stage::new("", &[]).await?;
    stage.engine.set_metrics(
        "vllm:num_requests_running{engine=\"0\"} 4\n\
         vllm:num_requests_waiting{engine=\"0\"} 2\n\
         vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\"} 1\n",
    );
    stage.until("engine_kv_tokens", 1600.0).await?;
    stage.until("engine_seats_learned", 4.0).await?;
    // What can't be read any more is still known.
    stage.engine.set_metrics("<html></html>");
    eventually("the page is read again", DEADLINE, async || {
        let state = stage.debug("state").await?;
        ensure!(state["engine"]["running"].is_null(), "{state}");
        Ok(())
    })
    .await?;
    let state = stage.debug("state").await?;
    assert_eq!(state["engine"]["kvTokens"], 1600);
    assert_eq!(state["engine"]["seatsLearned"], 4);
    assert_eq!(state["scheduler"]["seatCap"], 4);
    let age = state["engine"]["ageSeconds"].as_f64().context("an age")?;
    assert!(age >= 0.0);
    Ok(())
}
