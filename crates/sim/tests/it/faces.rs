//! TGI's and SGLang's faces, and what overload looks like in each.

use crate::support::{Running, read_until, slow, small, start_as};
use fairtide_sim::{
    engine::{Imitated, Kind, Version},
    model::SchedulingPolicy::{Fcfs, Priority},
};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

async fn fast(kind: Kind) -> Running {
    let imitated = Imitated::new(kind, None).unwrap();
    start_as(small(|_| ()), Fcfs, imitated, None).await
}

/// One seat, and no room for a second request.
async fn full(kind: Kind) -> Running {
    let imitated = Imitated::new(kind, None).unwrap();
    start_as(slow(), Fcfs, imitated, Some(1)).await
}

fn chat(max_tokens: u64, stream: bool) -> String {
    json!({
        "model": "sim",
        "messages": [{"role": "user", "content": "When does the tide turn?"}],
        "max_tokens": max_tokens,
        "stream": stream,
        "stream_options": {"include_usage": stream},
    })
    .to_string()
}

fn generate(max_new_tokens: u64, details: bool) -> String {
    let parameters = json!({"max_new_tokens": max_new_tokens, "details": details});
    json!({"inputs": "When does the tide turn?", "parameters": parameters}).to_string()
}

fn native(max_new_tokens: u64, stream: bool) -> String {
    let sampling = json!({"max_new_tokens": max_new_tokens});
    let text = "When does the tide turn?";
    json!({"text": text, "sampling_params": sampling, "stream": stream}).to_string()
}

#[tokio::test]
async fn tgi_streams_its_tokens_with_ids_and_the_text_at_the_end() {
    let engine = fast(Kind::Tgi).await;
    let answer = engine.ask("/generate_stream", "", &generate(5, true)).await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("text/event-stream"));
    let events = answer.events();
    assert_eq!(events.len(), 5, "and no [DONE]: {}", answer.body);
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["index"], at + 1);
        assert!(event["token"]["text"].is_string() && event["token"]["id"].is_u64());
        assert_eq!(event["token"]["special"], false);
    }
    assert!(
        events[..4]
            .iter()
            .all(|event| event["generated_text"].is_null())
    );
    let texts: String = events
        .iter()
        .map(|event| event["token"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(events[4]["generated_text"], *texts);
    let wanted =
        json!({"finish_reason": "length", "generated_tokens": 5, "seed": null, "input_length": 6});
    assert_eq!(events[4]["details"], wanted);
    let silent = engine
        .ask("/generate_stream", "", &generate(2, false))
        .await;
    assert_eq!(silent.events()[1]["details"], Value::Null);
}

#[tokio::test]
async fn tgi_answers_whole_with_its_figures_in_headers() {
    let engine = fast(Kind::Tgi).await;
    let answer = engine.ask("/generate", "", &generate(7, true)).await;
    let body = answer.json();
    assert!(body["generated_text"].is_string());
    assert_eq!(body["details"]["generated_tokens"], 7);
    assert_eq!(body["details"]["tokens"].as_array().unwrap().len(), 7);
    for header in [
        "x-prompt-tokens: 6",
        "x-generated-tokens: 7",
        "x-compute-characters: 24",
        "x-queue-time: ",
        "x-inference-time: ",
        "x-time-per-token: ",
        "x-total-time: ",
    ] {
        assert!(answer.head.contains(header), "{header}: {}", answer.head);
    }
    // The path of old clients: a list, or a stream if the body says so.
    let list = engine.ask("/", "", &generate(3, false)).await.json();
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(list[0].get("details"), None);
    let streamed = generate(3, false).replacen('{', "{\"stream\":true,", 1);
    assert_eq!(engine.ask("/", "", &streamed).await.events().len(), 3);
    // Its default, where no limit is set.
    let open = json!({"inputs": "tide", "parameters": {"details": true}}).to_string();
    let body = engine.ask("/generate", "", &open).await.json();
    assert_eq!(body["details"]["generated_tokens"], 100);
}

#[tokio::test]
async fn tgi_chats_repeat_the_role_and_have_no_event_of_their_own_for_it() {
    let engine = fast(Kind::Tgi).await;
    let events = engine.ask(CHAT, "", &chat(4, true)).await.events();
    assert_eq!(events.len(), 4 + 2);
    for event in &events[..4] {
        assert_eq!(event["choices"][0]["delta"]["role"], "assistant");
        assert_eq!(event["object"], "chat.completion.chunk");
        assert_eq!((&event["id"], &event["usage"]), (&json!(""), &Value::Null));
    }
    assert_eq!(events[3]["choices"][0]["finish_reason"], "length");
    assert_eq!(events[4]["usage"]["completion_tokens"], 4);
    assert_eq!(events[5], "[DONE]");
    let body = engine.ask(CHAT, "", &chat(4, false)).await.json();
    assert_eq!(body["usage"]["total_tokens"], 10);
    assert_eq!(body["system_fingerprint"], "3.3.6-fairtide-sim");
    let request = json!({"prompt": "tide", "max_tokens": 2, "stream": true}).to_string();
    let events = engine.ask(COMPLETIONS, "", &request).await.events();
    assert!(
        events[..2]
            .iter()
            .all(|event| event["choices"][0]["text"].is_string())
    );
}

#[tokio::test]
async fn tgi_says_mistakes_in_its_own_words_and_inside_streams() {
    let engine = fast(Kind::Tgi).await;
    let long = json!({"inputs": "x".repeat(5000)}).to_string();
    let plain = engine.ask("/generate", "", &long).await;
    assert_eq!(plain.status, 422);
    let wanted = json!({
        "error": "Input validation error: `inputs` must have less than 1023 tokens. Given: 1250",
        "error_type": "validation",
    });
    assert_eq!(plain.json(), wanted);
    let streamed = engine.ask("/generate_stream", "", &long).await;
    assert_eq!((streamed.status, streamed.events()), (200, vec![wanted]));
    let chats = engine.ask(CHAT, "", &chat(5000, true)).await;
    let events = chats.events();
    assert_eq!((chats.status, events.len()), (200, 2));
    assert_eq!(events[0]["error"]["http_status_code"], 422);
    assert_eq!(events[1], "[DONE]");
    for (body, status, said) in [
        ("{no json", 400, "Failed to parse the request body as JSON"),
        ("{}", 422, "Failed to deserialize the JSON body"),
    ] {
        let answer = engine.ask("/generate", "", body).await;
        assert_eq!(answer.status, status);
        assert!(answer.body.starts_with(said), "{}", answer.body);
    }
    let failures = engine
        .metric("tgi_request_failure{err=\"validation\"}")
        .await;
    assert_eq!(failures, 3.0);
}

#[tokio::test]
async fn an_overloaded_tgi_says_so_with_429_and_inside_a_stream_with_200() {
    let engine = full(Kind::Tgi).await;
    let mut running = engine
        .send("/generate_stream", "", &generate(900, false))
        .await;
    read_until(&mut running, "token").await;
    let wanted = json!({"error": "Model is overloaded", "error_type": "overloaded"});
    let plain = engine.ask("/generate", "", &generate(1, false)).await;
    assert_eq!((plain.status, plain.json()), (429, wanted.clone()));
    let plain = engine.ask(CHAT, "", &chat(1, false)).await;
    assert_eq!((plain.status, plain.json()), (429, wanted.clone()));
    let stream = engine
        .ask("/generate_stream", "", &generate(1, false))
        .await;
    assert_eq!((stream.status, stream.events()), (200, vec![wanted]));
    let stream = engine.ask(CHAT, "", &chat(1, true)).await;
    let error = json!({"error": {"message": "Model is overloaded", "http_status_code": 422}});
    assert_eq!(
        (stream.status, stream.events()),
        (200, vec![error, json!("[DONE]")])
    );
    let failed = "tgi_request_failure{err=\"overloaded\"}";
    assert_eq!(engine.metric(failed).await, 4.0);
    drop(running);
    engine.until_metric("tgi_batch_current_size", 0.0).await;
    assert_eq!(
        engine.metric("tgi_request_failure{err=\"dropped\"}").await,
        1.0
    );
    assert_eq!(
        engine
            .ask("/generate", "", &generate(1, false))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn an_overloaded_vllm_says_so_with_503_and_inside_a_chat_with_200() {
    let engine = full(Kind::Vllm).await;
    let mut running = engine.send(CHAT, "", &chat(900, true)).await;
    read_until(&mut running, "role").await;
    let message = "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.";
    let error = json!({"error": {
        "message": message, "type": "Service Unavailable", "param": null, "code": 503,
    }});
    let plain = engine.ask(CHAT, "", &chat(1, false)).await;
    assert_eq!((plain.status, plain.json()), (503, error.clone()));
    let request = json!({"prompt": "tide", "stream": true}).to_string();
    let stream = engine.ask(COMPLETIONS, "", &request).await;
    assert_eq!((stream.status, stream.json()), (503, error.clone()));
    let stream = engine.ask(CHAT, "", &chat(1, true)).await;
    assert_eq!(
        (stream.status, stream.events()),
        (200, vec![error, json!("[DONE]")])
    );
    let rejections = "vllm:admission_rejections_total{engine=\"0\",model_name=\"sim\",reason=\"max_num_queued_reqs\"}";
    assert_eq!(engine.metric(rejections).await, 3.0);
}

#[tokio::test]
async fn an_overloaded_sglang_says_so_with_503_and_inside_streams_with_200() {
    let engine = full(Kind::Sglang).await;
    let mut running = engine.send(CHAT, "", &chat(900, true)).await;
    read_until(&mut running, "role").await;
    let mut waiting = engine.send(CHAT, "", &chat(900, true)).await;
    read_until(&mut waiting, "\r\n\r\n").await;
    let queue = "sglang:num_queue_reqs{";
    engine.until_metric(queue, 1.0).await;
    let flat = |word: &str| {
        json!({
            "object": "error", "message": "The request queue is full.",
            "type": word, "param": null, "code": 503,
        })
    };
    for (path, body) in [(CHAT, chat(1, false)), ("/generate", native(1, false))] {
        let plain = engine.ask(path, "", &body).await;
        assert_eq!((plain.status, plain.json()), (503, flat("503")));
    }
    let stream = engine.ask(CHAT, "", &chat(1, true)).await;
    let error = json!({"error": flat("SERVICE_UNAVAILABLE")});
    assert_eq!(
        (stream.status, stream.events()),
        (200, vec![error, json!("[DONE]")])
    );
    let stream = engine.ask("/generate", "", &native(1, true)).await;
    let reason = &stream.events()[0]["meta_info"]["finish_reason"];
    assert_eq!(
        (reason["type"].as_str(), stream.status),
        (Some("abort"), 200)
    );
}

#[tokio::test]
async fn sglang_streams_all_the_text_so_far() {
    let engine = fast(Kind::Sglang).await;
    let events = engine.ask("/generate", "", &native(5, true)).await.events();
    assert_eq!(events.len(), 6);
    let text = |at: usize| events[at]["text"].as_str().unwrap().to_owned();
    assert!((1..5).all(|at| text(at).starts_with(&text(at - 1))));
    assert_eq!(events[3]["meta_info"]["finish_reason"], Value::Null);
    let facts = &events[4]["meta_info"];
    assert_eq!(
        facts["finish_reason"],
        json!({"type": "length", "length": 5})
    );
    assert_eq!(
        (&facts["prompt_tokens"], &facts["completion_tokens"]),
        (&json!(6), &json!(5))
    );
    assert_eq!(events[5], "[DONE]");
    let ids = json!({"input_ids": [5, 6, 7], "sampling_params": {"max_new_tokens": 2}}).to_string();
    let whole = engine.ask("/generate", "", &ids).await.json();
    assert_eq!(whole["meta_info"]["prompt_tokens"], 3);
    assert!(whole["meta_info"]["e2e_latency"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn sglang_chats_end_with_an_event_without_a_token() {
    let engine = fast(Kind::Sglang).await;
    let request = chat(4, true).replace("\"sim\"", "\"another\"");
    let events = engine.ask(CHAT, "", &request).await.events();
    // The role, four tokens, the end, the usage, [DONE].
    assert_eq!(events.len(), 8);
    let delta = |at: usize| &events[at]["choices"][0]["delta"];
    assert_eq!(delta(0)["role"], "assistant");
    assert!((1..5).all(|at| delta(at)["role"].is_null() && delta(at)["content"].is_string()));
    assert_eq!(delta(5)["content"], Value::Null);
    assert_eq!(events[5]["choices"][0]["finish_reason"], "length");
    assert_eq!(events[6]["usage"]["completion_tokens"], 4);
    // It serves its model by any name, and answers with that name.
    assert!(events[..7].iter().all(|event| event["model"] == "another"));
}

#[tokio::test]
async fn sglang_says_mistakes_in_its_own_shape() {
    let engine = fast(Kind::Sglang).await;
    for body in ["{no json", "{}"] {
        let answer = engine.ask(CHAT, "", body).await;
        let error = answer.json();
        assert_eq!((answer.status, &error["object"]), (400, &json!("error")));
        assert_eq!(error["type"], "Bad Request");
    }
    let plain = engine.ask(CHAT, "", &chat(5000, false)).await;
    assert_eq!(
        (plain.status, &plain.json()["type"]),
        (400, &json!("BadRequestError"))
    );
    let stream = engine.ask(CHAT, "", &chat(5000, true)).await;
    assert_eq!(stream.status, 200);
    assert_eq!(stream.events()[0]["error"]["code"], 400);
    let plain = engine.ask("/generate", "", &native(5000, false)).await;
    assert_eq!(plain.status, 400);
    assert!(plain.json()["error"]["message"].is_string());
}

#[tokio::test]
async fn sglang_serves_higher_priorities_first() {
    let imitated = Imitated::new(Kind::Sglang, None).unwrap();
    let engine = start_as(slow(), Priority, imitated, None).await;
    let mut running = engine.send(CHAT, "", &chat(900, true)).await;
    read_until(&mut running, "role").await;
    let with =
        |priority: i64| chat(2, true).replacen('{', &format!("{{\"priority\":{priority},"), 1);
    let mut low = engine.send(CHAT, "", &with(1)).await;
    engine.until_metric("sglang:num_queue_reqs{", 1.0).await;
    let mut high = engine.send(CHAT, "", &with(5)).await;
    engine.until_metric("sglang:num_queue_reqs{", 2.0).await;
    drop(running);
    let first = tokio::select! {
        _ = read_until(&mut low, "[DONE]") => "low",
        _ = read_until(&mut high, "[DONE]") => "high",
    };
    assert_eq!(first, "high");
}

#[tokio::test]
async fn facts_are_where_each_engine_has_them() {
    let tgi = fast(Kind::Tgi).await;
    for path in ["/health", "/ping", "/info", "/v1/models", "/metrics"] {
        assert_eq!(tgi.get(path).await.status, 200, "{path}");
    }
    let info = tgi.get("/info").await.json();
    assert_eq!(info["router"], "text-generation-router");
    assert_eq!(
        (&info["version"], &info["max_total_tokens"]),
        (&json!("3.3.6"), &json!(1024))
    );
    let tokens = tgi
        .ask("/tokenize", "", r#"{"inputs": "When does"}"#)
        .await
        .json();
    assert_eq!(
        tokens[1],
        json!({"id": 1, "text": " doe", "start": 4, "stop": 8})
    );
    assert_eq!(tokens.as_array().unwrap().len(), 3);
    assert_eq!(tgi.get("/version").await.status, 404, "that is vLLM's");

    let sglang = fast(Kind::Sglang).await;
    for path in [
        "/health",
        "/health_generate",
        "/get_model_info",
        "/v1/models",
        "/metrics",
    ] {
        assert_eq!(sglang.get(path).await.status, 200, "{path}");
    }
    assert_eq!(
        sglang.get("/get_model_info").await.json()["model_path"],
        "sim"
    );
    assert_eq!(
        sglang.get("/get_server_info").await.json()["version"],
        "0.5.23"
    );
    assert_eq!(sglang.get("/info").await.status, 404);
}

/// The names on a page: of families, without the series of histograms.
async fn names(kind: Kind, version: Option<Version>) -> Vec<String> {
    let imitated = Imitated::new(kind, version).unwrap();
    let engine = start_as(small(|_| ()), Fcfs, imitated, None).await;
    engine.ask(CHAT, "", &chat(3, true)).await;
    let page = engine.get("/metrics").await.body;
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: Vec<String> = types
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let name = series.split('{').next().unwrap();
        let family = names.iter().any(|family| {
            let rest = name.strip_prefix(family.as_str());
            matches!(rest, Some("" | "_bucket" | "_sum" | "_count"))
        });
        assert!(family, "{line} has no type");
    }
    names
}

#[tokio::test]
async fn metric_pages_have_the_names_of_their_version() {
    let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
    // (version, those that are there, those that aren't)
    let vllm: [(Version, &[&str], &[&str]); 5] = [
        (
            Version(0, 8, 5),
            &["gpu_cache_usage_perc", "time_per_output_token_seconds"],
            &[
                "kv_cache_usage_perc",
                "inter_token_latency_seconds",
                "num_requests_waiting_by_reason",
            ],
        ),
        (
            Version(0, 10, 2),
            &[
                "gpu_cache_usage_perc",
                "kv_cache_usage_perc",
                "time_per_output_token_seconds",
                "inter_token_latency_seconds",
            ],
            &["request_time_per_output_token_seconds"],
        ),
        (
            Version(0, 11, 2),
            &[
                "kv_cache_usage_perc",
                "time_per_output_token_seconds",
                "request_time_per_output_token_seconds",
            ],
            &["gpu_cache_usage_perc"],
        ),
        (
            Version(0, 18, 0),
            &["kv_cache_usage_perc", "inter_token_latency_seconds"],
            &[
                "time_per_output_token_seconds",
                "num_requests_waiting_by_reason",
            ],
        ),
        (
            Version(0, 32, 0),
            &[
                "num_requests_waiting_by_reason",
                "admission_rejections_total",
                "request_time_per_output_token_seconds",
            ],
            &["time_per_output_token_seconds", "gpu_cache_usage_perc"],
        ),
    ];
    for (version, there, gone) in vllm {
        let names = names(Kind::Vllm, Some(version)).await;
        for name in there {
            assert!(has(&names, &format!("vllm:{name}")), "{version}: {name}");
        }
        for name in gone {
            assert!(!has(&names, &format!("vllm:{name}")), "{version}: {name}");
        }
    }
    let tgi = names(Kind::Tgi, None).await;
    for name in [
        "tgi_batch_current_size",
        "tgi_queue_size",
        "tgi_batch_current_max_tokens",
        "tgi_batch_inference_duration",
        "tgi_request_mean_time_per_token_duration",
        "tgi_request_failure",
    ] {
        assert!(has(&tgi, name), "{name}");
    }
    let old = names(Kind::Sglang, Some(Version(0, 4, 6))).await;
    let new = names(Kind::Sglang, None).await;
    assert!(has(&old, "sglang:num_used_tokens") && !has(&old, "sglang:kv_used_tokens"));
    for name in [
        "num_running_reqs",
        "num_queue_reqs",
        "token_usage",
        "kv_used_tokens",
        "request_time_per_output_token_seconds",
    ] {
        assert!(has(&new, &format!("sglang:{name}")), "{name}");
    }
}

/// What a vLLM 0.32 was seen to have, as far as it is simulated here.
#[tokio::test]
async fn the_names_of_the_usual_vllm_are_those_that_were_seen() {
    let seen: Vec<&str> = include_str!("vllm-0.32-names.txt").lines().collect();
    for name in names(Kind::Vllm, None).await {
        assert!(seen.contains(&&*name), "{name} was never seen");
    }
}
