//! The program itself.

use crate::support::in_time;
use std::{path::PathBuf, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairtide-sim"));
    command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn engine(args: &[&str]) -> (Child, String) {
    let mut command = program();
    command.args(["engine", "--listen", "127.0.0.1:0", "--profile", "small"]);
    let mut child = command.args(args).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = in_time("its address", lines.next_line()).await;
    let line = line.unwrap().expect("it prints where it listens");
    let address = line.strip_prefix("listening on ").unwrap();
    (child, format!("http://{address}"))
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[tokio::test]
async fn load_against_an_engine_ends_in_a_report_with_a_schema() {
    let (mut child, target) = engine(&["--speed", "4", "--served-model-name", "tide"]).await;
    let scenario = file(
        "cli.yaml",
        "{name: t, about: t, duration: 300ms, drain: 20s, model: tide, classes: [{name: chat,
          promptTokens: 5, outputTokens: 5, arrivals: [{atOnce: {count: 3}}]}]}",
    );
    let report = file("cli.json", "");
    let mut load = program();
    load.args([
        "load", "--target", &target, "--policy", "none", "--seed", "9",
    ]);
    load.arg("--scenario")
        .arg(scenario)
        .arg("--json")
        .arg(&report);
    let output = in_time("the load", load.output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("chat") && printed.contains("100.0 %"),
        "{printed}"
    );
    let report = std::fs::read(report).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["schema"], 1);
    assert_eq!(report["policy"], "none");
    assert_eq!(report["seed"], 9);
    assert_eq!(report["classes"]["chat"]["completed"], 3);

    let pid = child.id().unwrap().to_string();
    Command::new("kill").arg(pid).status().await.unwrap();
    let status = in_time("the engine's end", child.wait()).await.unwrap();
    assert!(
        status.success(),
        "SIGTERM is a wish, not an error: {status}"
    );
}

#[tokio::test]
async fn what_cannot_be_obeyed_is_answered_with_one_line_and_64() {
    let bad_profile = file("bad-profile.yaml", "maxNumSeqs: 3");
    let bad_profile = bad_profile.to_str().unwrap();
    let impossible = file(
        "impossible.yaml",
        "{maxNumSeqs: 0, maxNumBatchedTokens: 1, maxModelLen: 2, kvTokens: 16,
          step: {baseUs: 1, perSequenceUs: 0, perContextTokenUs: 0, perPrefillTokenUs: 0}}",
    );
    let impossible = impossible.to_str().unwrap();
    let engine = ["engine", "--listen", "127.0.0.1:0"];
    let load = ["load", "--target", "http://127.0.0.1:1"];
    let cases: &[(&[&str], &[&str], &str)] = &[
        (&[], &[], "engine, or load"),
        (&["engine"], &[], "--listen"),
        (&["engine", "--listen", "8000"], &[], "127.0.0.1:8000"),
        (&engine, &["--speed", "0"], "a number above 0"),
        (&engine, &["--max-num-seqs", "0"], "--max-num-seqs"),
        (&engine, &["--scheduling-policy", "lifo"], "fcfs, priority"),
        (&engine, &["--engine", "ollama"], "vllm, tgi, sglang"),
        (&engine, &["--engine-version", "new"], "such as 0.32.0"),
        (
            &engine,
            &["--engine", "tgi", "--engine-version", "1.4"],
            "TGI 1.4.0 isn't known here; write a version from 3.0.0 up",
        ),
        (
            &engine,
            &["--engine", "tgi", "--scheduling-policy", "priority"],
            "TGI knows no priorities",
        ),
        (&engine, &["--max-requests", "0"], "--max-requests"),
        (&engine, &["--profile", "nowhere"], "llama-8b-h100"),
        (&engine, &["--profile", bad_profile], "missing field"),
        (
            &engine,
            &["--profile", impossible],
            "maxNumSeqs must be at least 1",
        ),
        (&engine, &["--nonsense"], "--nonsense"),
        (&load, &["--scenario", "nowhere"], "demo, burst"),
        (
            &load[..1],
            &["--scenario", "burst", "--target", "127.0.0.1"],
            "http://127.0.0.1:8000",
        ),
        (&load, &["--scenario", "burst", "--seed", "x"], "--seed"),
    ];
    for (command, more, says) in cases {
        let mut program = program();
        program.args(*command).args(*more);
        let output = in_time("its end", program.output()).await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            output.status.code(),
            Some(64),
            "{command:?} {more:?}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.starts_with("fairtide-sim: ") && said.contains(says),
            "{said}"
        );
    }
}

#[tokio::test]
async fn flags_are_read_from_variables_too() {
    let mut program = program();
    program.arg("engine").env("FAIRTIDE_LISTEN", "nowhere");
    let output = in_time("its end", program.output()).await.unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("nowhere"), "{said}");
}
