use crate::support::{Answer, in_time, read, read_until, slow, small, start};
use fairtide_sim::model::SchedulingPolicy::{Fcfs, Priority};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const RUNNING: &str = "vllm:num_requests_running{";
const WAITING: &str = "vllm:num_requests_waiting{";

fn chat(max_tokens: u64, stream: bool) -> Value {
    json!({
        "model": "sim",
        "messages": [{"role": "user", "content": "When does the tide turn?"}],
        "max_tokens": max_tokens,
        "stream": stream,
    })
}

#[tokio::test]
async fn a_chat_stream_is_role_then_one_event_per_token_then_done() {
    let engine = start(small(|_| ()), Fcfs).await;
    let answer = engine.ask(CHAT, "", &chat(30, true).to_string()).await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("text/event-stream"));
    let events = answer.events();
    assert_eq!(events.len(), 1 + 30 + 1, "{}", answer.body);
    let delta = |at: usize| events[at]["choices"][0]["delta"].clone();
    assert_eq!(delta(0), json!({"role": "assistant", "content": ""}));
    assert!((1..=30).all(|at| delta(at).get("role").is_none() && delta(at)["content"].is_string()));
    // As with a real tokenizer, a token may have no text of its own.
    assert!((1..=30).any(|at| delta(at)["content"] == ""));
    let reasons = (0..=30).map(|at| events[at]["choices"][0]["finish_reason"].clone());
    let reasons: Vec<Value> = reasons.collect();
    assert!(reasons[..30].iter().all(Value::is_null));
    assert_eq!(reasons[30], "length");
    assert_eq!(events[31], "[DONE]");
    assert!(
        events[..31]
            .iter()
            .all(|event| event.get("usage").is_none())
    );
}

#[tokio::test]
async fn usage_comes_in_an_event_of_its_own_when_it_is_asked_for() {
    let engine = start(small(|_| ()), Fcfs).await;
    let mut request = chat(5, true);
    request["stream_options"] = json!({"include_usage": true});
    let events = engine.ask(CHAT, "", &request.to_string()).await.events();
    let usage = &events[events.len() - 2];
    assert_eq!(usage["choices"], json!([]));
    // "When does the tide turn?" has 24 bytes.
    let wanted = json!({"prompt_tokens": 6, "completion_tokens": 5, "total_tokens": 11});
    assert_eq!(usage["usage"], wanted);

    request["stream_options"]["continuous_usage_stats"] = true.into();
    let events = engine.ask(CHAT, "", &request.to_string()).await.events();
    let tokens: Vec<_> = events[..events.len() - 1]
        .iter()
        .map(|event| event["usage"]["completion_tokens"].as_u64().unwrap())
        .collect();
    assert_eq!(tokens, [0, 1, 2, 3, 4, 5, 5]);
}

#[tokio::test]
async fn plain_answers_carry_usage_and_the_length_asked_for() {
    let engine = start(small(|_| ()), Fcfs).await;
    let answer = engine.ask(CHAT, "", &chat(7, false).to_string()).await;
    let body = answer.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    assert!(body["choices"][0]["message"]["content"].is_string());
    assert_eq!(body["usage"]["completion_tokens"], 7);

    let request = json!({"prompt": [5, 6, 7, 8]}).to_string();
    let body = engine.ask(COMPLETIONS, "", &request).await.json();
    assert_eq!(body["object"], "text_completion");
    assert!(body["choices"][0]["text"].is_string());
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    let wanted = json!({"prompt_tokens": 4, "completion_tokens": 128, "total_tokens": 132});
    assert_eq!(body["usage"], wanted);

    let request = json!({"prompt": "tide", "max_tokens": 3, "stream": true}).to_string();
    let events = engine.ask(COMPLETIONS, "", &request).await.events();
    assert_eq!(events.len(), 4);
    assert!(
        events[..3]
            .iter()
            .all(|e| e["choices"][0]["text"].is_string())
    );
}

#[tokio::test]
async fn max_completion_tokens_and_the_clients_request_id_are_honoured() {
    let engine = start(small(|_| ()), Fcfs).await;
    let mut request = chat(9, false);
    request["max_completion_tokens"] = 4.into();
    let headers = "x-request-id: abc\"123\r\n";
    let body = engine.ask(CHAT, headers, &request.to_string()).await.json();
    assert_eq!(body["usage"]["completion_tokens"], 4);
    assert_eq!(body["id"], "chatcmpl-abc\"123");
    request["stream"] = true.into();
    let events = engine
        .ask(CHAT, headers, &request.to_string())
        .await
        .events();
    assert_eq!(events[0]["id"], "chatcmpl-abc\"123");
}

#[tokio::test]
async fn a_queued_stream_gets_its_head_at_once_and_its_role_only_with_its_first_token() {
    let engine = start(slow(), Fcfs).await;
    let mut first = engine.send(CHAT, "", &chat(900, true).to_string()).await;
    read_until(&mut first, "role").await;
    let mut second = engine.send(CHAT, "", &chat(1, true).to_string()).await;
    let head = read_until(&mut second, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 OK"));
    assert!(head.ends_with("\r\n\r\n"), "no event yet: {head}");
    assert_eq!(engine.metric(WAITING).await, 1.0);
    drop(first);
    read_until(&mut second, "role").await;
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place_whether_queued_running_or_unstreamed() {
    let engine = start(slow(), Fcfs).await;
    for stream in [true, false] {
        let body = chat(900, stream).to_string();
        let runs = engine.send(CHAT, "", &body).await;
        engine.until_metric(RUNNING, 1.0).await;
        let waits = engine.send(CHAT, "", &body).await;
        engine.until_metric(WAITING, 1.0).await;
        // Without their leaving they would be there for 18 s each.
        drop(waits);
        engine.until_metric(WAITING, 0.0).await;
        assert_eq!(engine.metric(RUNNING).await, 1.0);
        drop(runs);
        engine.until_metric(RUNNING, 0.0).await;
    }
    assert_eq!(engine.metric("vllm:kv_cache_usage_perc").await, 0.0);
    // As in vLLM: who leaves is counted nowhere.
    let abort = "vllm:request_success_total{engine=\"0\",finished_reason=\"abort\"";
    assert_eq!(engine.metric(abort).await, 0.0);
    assert_eq!(
        engine
            .metric("vllm:e2e_request_latency_seconds_count")
            .await,
        0.0
    );
}

#[tokio::test]
async fn mistakes_are_answered_in_vllms_shapes() {
    let engine = start(small(|_| ()), Fcfs).await;
    let long = "x".repeat(5000);
    let chat_with = |field: &str, value: Value| {
        let mut request = chat(5, true);
        request[field] = value;
        request.to_string()
    };
    let long_messages = json!([{"role": "user", "content": long}]);
    let cases = [
        (CHAT, "{not json".to_owned(), 400, "Bad Request"),
        (CHAT, "[1]".to_owned(), 400, "Bad Request"),
        (CHAT, r#"{"model":"sim"}"#.to_owned(), 400, "Bad Request"),
        (
            COMPLETIONS,
            r#"{"model":"sim"}"#.to_owned(),
            400,
            "Bad Request",
        ),
        (
            CHAT,
            chat_with("max_tokens", "abc".into()),
            400,
            "Bad Request",
        ),
        (
            CHAT,
            chat_with("stream", "maybe".into()),
            400,
            "Bad Request",
        ),
        (
            CHAT,
            chat_with("priority", "high".into()),
            400,
            "Bad Request",
        ),
        (
            CHAT,
            chat_with("messages", "hello".into()),
            400,
            "Bad Request",
        ),
        (
            CHAT,
            chat_with("model", "nope".into()),
            404,
            "NotFoundError",
        ),
        (
            CHAT,
            chat_with("messages", long_messages),
            400,
            "BadRequestError",
        ),
        (
            CHAT,
            chat_with("max_tokens", 1025.into()),
            400,
            "BadRequestError",
        ),
        (
            CHAT,
            chat_with("max_tokens", 1020.into()),
            400,
            "BadRequestError",
        ),
        (
            CHAT,
            chat_with("max_tokens", 0.into()),
            400,
            "BadRequestError",
        ),
        (CHAT, chat_with("n", 2.into()), 400, "BadRequestError"),
    ];
    for (path, body, status, kind) in cases {
        let answer = engine.ask(path, "", &body).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        let error = &answer.json()["error"];
        assert_eq!(error["type"], kind, "{body}");
        assert_eq!(error["code"], status);
        assert!(error["message"].is_string() && error["param"].is_string());
    }
    let unknown = engine.get("/v1/nothing").await;
    assert_eq!(
        (unknown.status, unknown.json()),
        (404, json!({"detail": "Not Found"}))
    );
    let wrong_method = engine.get(CHAT).await;
    assert_eq!(wrong_method.status, 405);
    assert_eq!(wrong_method.json(), json!({"detail": "Method Not Allowed"}));
    // A field that it doesn't know, and the model left out, are no mistakes.
    let odd = json!({"messages": [], "max_tokens": 1, "tide": "high"}).to_string();
    assert_eq!(engine.ask(CHAT, "", &odd).await.status, 200);
}

#[tokio::test]
async fn facts_about_the_engine_are_where_vllm_has_them() {
    let engine = start(small(|_| ()), Fcfs).await;
    assert_eq!(engine.get("/health").await.status, 200);
    assert!(engine.get("/version").await.json()["version"].is_string());
    let models = engine.get("/v1/models").await.json();
    assert_eq!(models["data"][0]["id"], "sim");
    assert_eq!(models["data"][0]["max_model_len"], 1024);
    let page = engine.get("/metrics").await.body;
    let config = page
        .lines()
        .find(|l| l.starts_with("vllm:cache_config_info{"))
        .unwrap();
    assert!(config.contains("block_size=\"16\"") && config.contains("num_gpu_blocks=\"128\""));
}

#[tokio::test]
async fn every_line_of_the_metrics_page_is_well_formed_and_counts_what_was_done() {
    let engine = start(small(|_| ()), Fcfs).await;
    engine.ask(CHAT, "", &chat(10, true).to_string()).await;
    engine
        .ask(CHAT, "", &json!({"messages": []}).to_string())
        .await;
    let page = engine.get("/metrics").await;
    assert!(page.head.contains("text/plain"));
    let mut bucket = (String::new(), 0.0);
    for line in page.body.lines().filter(|line| !line.starts_with("# ")) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        let (name, labels) = series.strip_suffix('}').unwrap().split_once('{').unwrap();
        assert!(name.starts_with("vllm:"), "{line}");
        assert!(labels.contains("engine=\"0\""), "{line}");
        let is_config = name == "vllm:cache_config_info";
        assert!(is_config || labels.contains("model_name=\"sim\""), "{line}");
        if name.ends_with("_bucket") {
            assert!(
                bucket.0 != name || bucket.1 <= value,
                "not cumulative: {line}"
            );
            bucket = (name.to_owned(), value);
        }
    }
    for (series, wanted) in [
        ("vllm:prompt_tokens_total", 7.0),
        ("vllm:generation_tokens_total", 138.0),
        ("vllm:time_to_first_token_seconds_count", 2.0),
        ("vllm:inter_token_latency_seconds_count", 136.0),
        ("vllm:request_time_per_output_token_seconds_count", 2.0),
        ("vllm:request_queue_time_seconds_count", 2.0),
        ("vllm:e2e_request_latency_seconds_count", 2.0),
        ("vllm:num_preemptions_total", 0.0),
        (
            "vllm:request_success_total{engine=\"0\",finished_reason=\"length\"",
            1.0,
        ),
        (
            "vllm:request_success_total{engine=\"0\",finished_reason=\"stop\"",
            1.0,
        ),
        (
            "vllm:num_requests_waiting_by_reason{engine=\"0\",model_name=\"sim\",reason=\"capacity\"",
            0.0,
        ),
    ] {
        assert_eq!(engine.metric(series).await, wanted, "{series}");
    }
    // 2.1 ms a token and some prefill.
    let tpot = engine.metric("vllm:inter_token_latency_seconds_sum").await / 136.0;
    assert!((0.0021..0.0023).contains(&tpot), "{tpot}");
}

/// Queues four requests behind a running one and says in which order they are served.
async fn order(
    policy: fairtide_sim::model::SchedulingPolicy,
    requests: [(&str, Value); 4],
) -> Vec<usize> {
    let engine = start(slow(), policy).await;
    let mut running = engine.send(CHAT, "", &chat(900, true).to_string()).await;
    read_until(&mut running, "role").await;
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    for (at, (headers, priority)) in requests.into_iter().enumerate() {
        let mut request = chat(1, false);
        request["priority"] = priority;
        let stream = engine.send(CHAT, headers, &request.to_string()).await;
        engine.until_metric(WAITING, at as f64 + 1.0).await;
        let served = served.clone();
        tokio::spawn(async move {
            assert_eq!(read(stream).await.status, 200);
            served.send(at).unwrap();
        });
    }
    drop((served, running));
    let mut all = Vec::new();
    while let Some(at) = in_time("the next one", order.recv()).await {
        all.push(at);
    }
    all
}

#[tokio::test]
async fn lower_priorities_go_first_and_the_header_beats_the_body() {
    let requests = || {
        [
            ("", json!(5)),
            ("", Value::Null),
            ("x-vllm-priority: -7\r\n", json!(9)),
            ("", json!(-1)),
        ]
    };
    assert_eq!(order(Priority, requests()).await, [2, 3, 1, 0]);
    assert_eq!(order(Fcfs, requests()).await, [0, 1, 2, 3]);
}

#[tokio::test]
async fn an_engine_that_is_stopped_ends_its_answers_with_an_error() {
    let engine = start(slow(), Fcfs).await;
    let mut streamed = engine.send(CHAT, "", &chat(900, true).to_string()).await;
    let head = read_until(&mut streamed, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"));
    engine.until_metric(RUNNING, 1.0).await;
    let plain = engine.send(CHAT, "", &chat(900, false).to_string()).await;
    engine.until_metric(WAITING, 1.0).await;
    engine.stop.cancel();
    let end = read_until(&mut streamed, "data: [DONE]").await;
    assert!(end.contains("\"type\":\"InternalServerError\""), "{end}");
    let Answer { status, .. } = read(plain).await;
    assert_eq!(status, 500);
    let refused = async {
        while tokio::net::TcpStream::connect(engine.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    in_time("no new connections", refused).await;
}
