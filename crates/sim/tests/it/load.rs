use crate::support::{Running, in_time, slow, small, start};
use fairtide_sim::{
    load::{End, Load, Offering, Scenario},
    model::SchedulingPolicy::Fcfs,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

fn scenario(duration: &str, drain: &str, classes: &str) -> Arc<Scenario> {
    let text =
        format!("name: t\nabout: t\nduration: {duration}\ndrain: {drain}\nclasses:\n{classes}");
    Arc::new(Scenario::parse("t", &text).unwrap())
}

async fn offer(scenario: Arc<Scenario>, targets: &[&Running]) -> Offering {
    let targets = targets.iter().map(|engine| {
        let target = format!("http://{}/", engine.address);
        target.parse().unwrap()
    });
    let load = Load::new(scenario, 1, targets.collect(), "test");
    in_time("the run", load.offer()).await
}

const TEN_STREAMS: &str = "
  - name: chat
    promptTokens: 20
    outputTokens: 30
    arrivals: [atOnce: {count: 10}]
";

#[tokio::test]
async fn every_request_is_answered_and_its_tokens_are_counted() {
    let engine = start(small(|_| ()), Fcfs).await;
    let plain = TEN_STREAMS.replace("chat", "plain") + "    stream: false\n";
    let classes = TEN_STREAMS.to_owned() + &plain;
    let offering = offer(scenario("1s", "20s", &classes), &[&engine]).await;
    for class in ["chat", "plain"] {
        let class = &offering.run.classes[class];
        assert_eq!((class.offered, class.completed), (10, 10));
        assert_eq!(class.slo_attained, Some(1.0));
        assert!(class.latency_ms.p50.unwrap() > 60.0, "30 tokens of 2 ms");
    }
    let chat = &offering.run.classes["chat"];
    assert!(chat.ttft_ms.p50.unwrap() < chat.latency_ms.p50.unwrap());
    assert!(chat.tpot_ms.p50.unwrap() > 2.0);
    assert!(offering.seen.iter().all(|seen| seen.tokens == 30));
    // An answer that isn't streamed has all its tokens at its end.
    let plain = &offering.run.classes["plain"];
    assert!(plain.ttft_ms.p50.unwrap() > 60.0);
    assert_eq!(plain.tpot_ms.p50, None);
    assert_eq!(engine.metric("vllm:generation_tokens_total").await, 600.0);
    assert_eq!(engine.metric("vllm:prompt_tokens_total").await, 400.0);
    assert!(offering.run.engine.output_tokens_per_s.unwrap() > 0.0);
}

#[tokio::test]
async fn arrivals_do_not_wait_for_answers_and_what_is_unfinished_counts_with_its_age() {
    // 30 tokens take 600 ms, one request at a time: about one of ten is done in the end.
    let engine = start(slow(), Fcfs).await;
    let offering = offer(scenario("500ms", "500ms", TEN_STREAMS), &[&engine]).await;
    let chat = &offering.run.classes["chat"];
    assert_eq!(chat.offered, 10);
    assert!(chat.completed <= 1);
    assert_eq!(chat.completed + chat.cancelled, 10);
    // Those that never got a token were 1 s old when the run ended.
    assert!(chat.ttft_ms.p50.unwrap() >= 1000.0, "{:?}", chat.ttft_ms);
    assert!(chat.latency_ms.p99.unwrap() >= 1000.0);
    assert!(chat.slo_attained.unwrap() <= 0.1);
    // They have left the engine as well.
    engine.until_metric("vllm:num_requests_running{", 0.0).await;
    engine.until_metric("vllm:num_requests_waiting{", 0.0).await;
}

#[tokio::test]
async fn clients_without_patience_leave_before_the_first_token_only() {
    let engine = start(slow(), Fcfs).await;
    let classes = TEN_STREAMS.to_owned() + "    patience: 300ms\n";
    let classes = classes.replace("count: 10", "count: 2");
    let offering = offer(scenario("1s", "5s", &classes), &[&engine]).await;
    let chat = &offering.run.classes["chat"];
    assert_eq!((chat.completed, chat.cancelled), (1, 1));
    let left = offering.seen.iter().find(|seen| seen.end == End::Cancelled);
    let left = left.unwrap();
    assert!(left.ended >= Duration::from_millis(300));
    assert_eq!(left.first_token, None);
}

#[tokio::test]
async fn requests_of_a_class_go_to_the_targets_in_turn() {
    let (one, two) = (
        start(small(|_| ()), Fcfs).await,
        start(small(|_| ()), Fcfs).await,
    );
    offer(scenario("1s", "20s", TEN_STREAMS), &[&one, &two]).await;
    for engine in [one, two] {
        assert_eq!(engine.metric("vllm:generation_tokens_total").await, 150.0);
    }
}

/// Answers every request with the same bytes, and counts them.
async fn scripted(answer: &'static str) -> (Running, Arc<std::sync::atomic::AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Running::at(listener.local_addr().unwrap());
    let count = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"}") {
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    (server, count)
}

#[tokio::test]
async fn refusals_are_counted_by_outcome_and_never_sent_again() {
    let refusal = "HTTP/1.1 429 Too Many Requests\r\nx-fairtide-outcome: queue_full\r\n\
        x-fairtide-queue-ms: 12\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    let (server, count) = scripted(refusal).await;
    let offering = offer(scenario("100ms", "5s", TEN_STREAMS), &[&server]).await;
    let chat = &offering.run.classes["chat"];
    assert_eq!(chat.refused["queue_full"], 10);
    assert_eq!(chat.failed, 0);
    assert_eq!(chat.slo_attained, Some(0.0));
    assert_eq!(chat.ttft_ms.p50, None);
    assert_eq!(chat.queue_ms.p50, Some(12.0));
    assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 10);
}

#[tokio::test]
async fn what_breaks_is_failed_with_its_reason_and_no_refusal() {
    let broken_off = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let error_inside = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
        data: {\"error\":{\"message\":\"out of order\",\"code\":500}}\n\ndata: [DONE]\n\n";
    let engines_own = "HTTP/1.1 503 Service Unavailable\r\nx-fairtide-outcome: engine_rejected\r\n\
        connection: close\r\ncontent-length: 4\r\n\r\nbusy";
    for (answer, reason) in [
        (broken_off, "the stream ended without [DONE]"),
        (error_inside, "out of order"),
        (engines_own, "503 Service Unavailable: busy"),
    ] {
        let (server, _) = scripted(answer).await;
        let offering = offer(scenario("100ms", "5s", TEN_STREAMS), &[&server]).await;
        let chat = &offering.run.classes["chat"];
        assert_eq!((chat.failed, chat.completed), (10, 0));
        assert!(chat.refused.is_empty());
        let (said, count) = offering.failures.first_key_value().unwrap();
        assert!(said.contains(reason), "{said}");
        assert_eq!(*count, 10);
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Running::at(nobody.local_addr().unwrap());
    drop(nobody);
    let offering = offer(scenario("100ms", "5s", TEN_STREAMS), &[&server]).await;
    assert_eq!(offering.run.classes["chat"].failed, 10);
    assert_eq!(offering.run.engine.busy, None);
}
