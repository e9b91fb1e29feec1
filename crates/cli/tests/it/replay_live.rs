//! `kubectl-fairtide replay --live`, against `fairtide-sim engine` on loopback.

use fairtide_sim::{
    engine::{Imitated, Options, serve},
    model::{Profile, SchedulingPolicy},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tokio_util::sync::{CancellationToken, DropGuard};

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/demo-burst");

/// An engine, for as long as this lives.
struct Engine {
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
    _stop: DropGuard,
}

impl Engine {
    fn start(change: impl FnOnce(&mut Profile)) -> Self {
        let mut profile = Profile::named("small").unwrap();
        change(&mut profile);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let stop = CancellationToken::new();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        let address = listener.local_addr().unwrap();
        let options = Options {
            profile,
            policy: SchedulingPolicy::Fcfs,
            // Requests for another one are refused.
            model: "tides-8b".to_owned(),
            imitated: Imitated::default(),
            most_requests: None,
        };
        runtime.spawn(serve(listener, options, stop.clone()));
        Self {
            address,
            _runtime: runtime,
            _stop: stop.drop_guard(),
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn out(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// So many requests of each class, in so many seconds.
fn trace(name: &str, count: usize, seconds: usize) -> String {
    let mut rows = String::new();
    for at in 0..count {
        let ms = seconds * 1000 * at / count.max(2);
        for (class, prompt) in [("interactive", 20), ("batch", 60)] {
            rows += &format!(
                "{{\"at_ms\": {ms}, \"class\": \"{class}\", \"tenant\": \"t{}\", \"prompt_tokens\": {prompt}, \"output_tokens\": 8}}\n",
                at % 2
            );
        }
    }
    let path = out(name);
    std::fs::write(&path, rows).unwrap();
    path.to_str().unwrap().to_owned()
}

fn replay(out: &Path, trace: &str, url: &str, more: &[&str], key: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-fairtide"));
    command
        .env_clear()
        .args(["replay", "--manifests", MANIFESTS, "--trace", trace])
        .args(["--live", url])
        .arg("--out")
        .arg(out)
        .args(more);
    if let Some(key) = key {
        command.env("FAIRTIDE_API_KEY", key);
    }
    command.output().unwrap()
}

fn report(out: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

#[test]
fn a_trace_is_sent_to_an_engine_and_reported_beside_what_the_model_says() {
    let engine = Engine::start(|_| {});
    let out = out("live");
    let trace = trace("live.jsonl", 10, 20);
    let more = [
        "--speed",
        "40",
        "--policies",
        "fifo",
        "--profile",
        "small",
        "--slo",
        "interactive=ttft:1h",
        "--tenant-header",
        "x-tenant",
        "--header",
        "batch=x-job: eval-1",
    ];
    let output = replay(&out, &trace, &engine.url(), &more, None);
    assert!(output.status.success(), "{}", said(&output));
    let wanted = format!(
        "sending 20 requests over 0.5 s to {}/, at most 256 at once",
        engine.url()
    );
    assert_eq!(said(&output), wanted);

    let report = report(&out);
    let policies: Vec<&str> = report["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["policy"].as_str().unwrap())
        .collect();
    assert_eq!(policies, ["fifo", "live"]);
    for run in 0..2 {
        for class in ["interactive", "batch"] {
            let class = &report["runs"][run]["classes"][class];
            assert_eq!(class["offered"], 10, "{class}");
            assert_eq!(class["completed"], 10, "{class}");
            assert_eq!(class["slo_attained"], 1.0, "{class}");
            assert!(class["tpot_ms"]["p50"].as_f64().unwrap() > 0.0, "{class}");
        }
    }
    let html = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(html.contains(&format!("{}/, at most 256 requests at once", engine.url())));
}

#[test]
fn no_more_are_under_way_than_allowed_and_waiting_counts() {
    // 20 ms a token: eight tokens are 160 ms, ten requests one by one more than a second.
    let engine = Engine::start(|profile| profile.step.base_us = 20_000.0);
    let out = out("bounded");
    let trace = trace("bounded.jsonl", 5, 0);
    let more = ["--max-in-flight", "1"];
    let output = replay(&out, &trace, &engine.url(), &more, None);
    assert!(output.status.success(), "{}", said(&output));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        table.contains("9 were sent late, as 1 were under way; see --max-in-flight"),
        "{table}"
    );
    let report = report(&out);
    let run = &report["runs"][0];
    assert_eq!(run["policy"], "live");
    let last = run["classes"]["batch"]["latency_ms"]["p99"]
        .as_f64()
        .unwrap();
    assert!(last > 10.0 * 7.0 * 20.0, "{last} ms");
    // All came in one moment, so tokens are counted to the end.
    assert!(run["duration_s"].as_f64().unwrap() > 1.0, "{run}");
    assert!(
        run["classes"]["batch"]["output_tokens_per_s"]
            .as_f64()
            .unwrap()
            > 0.0
    );
}

#[test]
fn nothing_is_sent_to_who_is_not_there_or_wants_a_key() {
    let trace = trace("unsent.jsonl", 2, 0);
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let output = replay(&out("nobody"), &trace, &nobody, &[], None);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(
        text.starts_with(&format!("kubectl-fairtide: can't reach {nobody}/: ")),
        "{text}"
    );
    assert!(
        text.contains("onnection refused")
            && text.ends_with("; start the endpoint, or write another --live URL"),
        "{text}"
    );

    let guard = TcpListener::bind("127.0.0.1:0").unwrap();
    let guarded = format!("http://{}", guard.local_addr().unwrap());
    let guard = std::thread::spawn(move || {
        let (mut connection, _) = guard.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            connection.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let refusal =
            b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        connection.write_all(refusal).unwrap();
        String::from_utf8(head).unwrap()
    });
    let output = replay(&out("guarded"), &trace, &guarded, &[], Some("wrong"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        said(&output),
        format!(
            "kubectl-fairtide: {guarded}/ answers 401 Unauthorized; set FAIRTIDE_API_KEY to a key that it takes"
        )
    );
    let head = guard.join().unwrap();
    assert!(head.contains("authorization: Bearer wrong"), "{head}");
}

#[test]
fn an_endpoint_that_answers_nothing_is_an_error_with_a_report() {
    let engine = Engine::start(|_| {});
    let out = out("wrong-model");
    let trace = trace("wrong-model.jsonl", 1, 0);
    let output = replay(&out, &trace, &engine.url(), &["--model", "ebb"], None);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(
        text.contains("answered no request in full: 404 Not Found"),
        "{text}"
    );
    let why = &report(&out)["runs"][0]["classes"]["batch"]["failed_why"];
    assert_eq!(why.as_object().unwrap().len(), 1, "{why}");
}

#[test]
fn bounds_and_flags_are_checked_before_anything_is_sent() {
    let engine = Engine::start(|_| {});
    let trace = trace("checked.jsonl", 3, 0);
    let out = out("checked");
    for (more, code, wanted) in [
        (
            &["--max-requests", "5"][..],
            1,
            "the trace has more than 5 requests; nothing is sent. Write --max-requests",
        ),
        (
            &["--header", "gold=x-job:1"],
            1,
            "--header names the class \"gold\", which the pool doesn't have; write one of",
        ),
        (
            &["--header", "x-job"],
            64,
            "write NAME:VALUE, or CLASS=NAME:VALUE for one class",
        ),
        (&["--max-in-flight", "0"], 64, "--max-in-flight"),
    ] {
        let output = replay(&out, &trace, &engine.url(), more, None);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(wanted), "{text}");
    }
    let output = replay(&out, &trace, "https://127.0.0.1:1", &[], None);
    assert_eq!(output.status.code(), Some(64));
    assert!(
        said(&output).contains("write the http:// URL"),
        "{}",
        said(&output)
    );
}
