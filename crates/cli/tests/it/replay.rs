//! `kubectl-fairtide replay`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/demo-burst");

fn replay(out: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-fairtide"));
    command
        .env_clear()
        .args(["replay", "--manifests", MANIFESTS]);
    command
        .arg("--out")
        .arg(out)
        .args(arguments)
        .output()
        .unwrap()
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn file(name: &str, text: &str) -> String {
    let path = folder(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn refusal(output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    (output.status.code(), text)
}

/// A batch job in the first second, and somebody who asks each second.
fn trace() -> String {
    let mut rows = String::new();
    for _ in 0..60 {
        rows +=
            "{\"at_ms\": 0, \"class\": \"batch\", \"prompt_tokens\": 32, \"output_tokens\": 200}\n";
    }
    for second in 0..20 {
        let at = second * 1000;
        rows += &format!(
            "{{\"at_ms\": {at}, \"class\": \"interactive\", \"tenant\": \"ann\", \"prompt_tokens\": 32, \"output_tokens\": 20}}\n"
        );
    }
    rows
}

#[test]
fn policies_are_replayed_side_by_side_into_a_table_and_the_same_json_each_time() {
    let trace = file("side.jsonl", &trace());
    let arguments = [
        "--trace",
        &trace,
        "--profile",
        "mock-16",
        "--policies",
        "fairtide,fifo",
        "--slo",
        "interactive=ttft:1s,tpot:60ms",
    ];
    let (first, second) = (folder("side-1"), folder("side-2"));
    let output = replay(&first, &arguments);
    assert!(output.status.success(), "{}", refusal(&output).1);
    replay(&second, &arguments);
    let text = std::fs::read_to_string(first.join("report.json")).unwrap();
    assert_eq!(
        text,
        std::fs::read_to_string(second.join("report.json")).unwrap()
    );

    let html = std::fs::read_to_string(first.join("report.html")).unwrap();
    assert_eq!(
        html,
        std::fs::read_to_string(second.join("report.html")).unwrap()
    );
    assert!(html.contains("<h1>Replay of side.jsonl</h1>"), "{html}");
    assert!(html.contains("mock-16, 16 seats"), "{html}");

    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["schema"], 1);
    let attained =
        |run: usize| report["runs"][run]["classes"]["interactive"]["slo_attained"].as_f64();
    assert_eq!(report["runs"][0]["policy"], "fairtide");
    assert_eq!(attained(0), Some(1.0));
    assert!(attained(1).unwrap() < 0.5, "{text}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("fifo\nclass"), "{table}");
}

#[test]
fn the_gate_fails_when_a_class_got_worse_and_passes_when_not() {
    let trace = file("gate.jsonl", &trace());
    let (good, bad) = (folder("gate-good"), folder("gate-bad"));
    let common = [
        "--trace",
        &trace,
        "--policies",
        "fairtide",
        "--slo",
        "interactive=ttft:1s",
    ];
    let with = |out: &Path, more: &[&str]| replay(out, &[&common, more].concat());
    assert!(with(&good, &["--profile", "mock-16"]).status.success());
    let report = good.join("report.json");
    let against = ["--against", report.to_str().unwrap()];
    let same = with(&bad, &[&["--profile", "mock-16"][..], &against].concat());
    assert!(same.status.success(), "{}", refusal(&same).1);

    let fewer = ["--profile", "mock-16", "--max-num-seqs", "4"];
    let (code, said) = refusal(&with(&bad, &[&fewer[..], &against].concat()));
    assert_eq!(code, Some(1));
    assert!(
        said.contains(
            "worse than before by more than 5 %: fairtide, class batch: output_tokens_per_s was"
        ),
        "{said}"
    );

    // So much worse is allowed.
    let fifo = [
        "--trace",
        &trace,
        "--policies",
        "fifo",
        "--profile",
        "mock-16",
    ];
    let out = folder("gate-fifo");
    assert!(replay(&out, &fifo).status.success());
    let report = out.join("report.json");
    let slower = |tolerance| {
        let against = ["--against", report.to_str().unwrap()];
        let more = ["--max-num-seqs", "14", "--tolerance", tolerance];
        replay(&bad, &[&fifo[..], &against, &more].concat()).status
    };
    assert_eq!(slower("5").code(), Some(1));
    assert_eq!(slower("100").code(), Some(0));

    // Another load says nothing of the policy.
    let longer = file(
        "longer.jsonl",
        &(self::trace()
            + "{\"at_ms\": 20000, \"class\": \"batch\", \"prompt_tokens\": 1, \"output_tokens\": 1}\n"),
    );
    let mut other = common;
    other[1] = &longer;
    let (code, said) = refusal(&replay(&bad, &[&other[..], &against].concat()));
    assert_eq!(code, Some(1));
    assert!(
        said.contains("another load: fairtide, class batch had 60 requests, and has 61"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_replayed_gets_one_sentence() {
    let out = folder("refused");
    let trace = file(
        "refused.jsonl",
        "{\"at_ms\": 0, \"prompt_tokens\": 1, \"output_tokens\": -1}\n",
    );
    let (code, said) = refusal(&replay(&out, &["--trace", &trace]));
    assert_eq!(code, Some(1));
    let end = "refused.jsonl, line 1, column output_tokens: -1 is not right; write a number of tokens from 0 up";
    assert!(said.ends_with(end), "{said}");

    for (arguments, wanted) in [
        (
            &["--trace", "x", "--policies", "magic"][..],
            "there is no policy \"magic\"; write one of fairtide, fifo",
        ),
        (
            &["--trace", "x", "--policies", "static"],
            "static needs a number of requests from 1 up: write static:16",
        ),
        (
            &["--trace", "x", "--speed", "0"],
            "write a number from 0.001 to 1000000, such as 2",
        ),
        (
            &["--trace", "x", "--slo", "chat"],
            "write a class and its objectives, such as chat=ttft:1s,tpot:60ms",
        ),
    ] {
        let (code, said) = refusal(&replay(&out, arguments));
        assert_eq!(code, Some(64), "{said}");
        assert!(said.contains(wanted) && said.lines().count() == 1, "{said}");
    }
    let (code, said) = refusal(&replay(
        &out,
        &["--scenario", "burst", "--slo", "gold=ttft:1s"],
    ));
    assert_eq!(code, Some(1));
    assert!(
        said.contains("--slo names the class \"gold\", which the pool doesn't have; write one of"),
        "{said}"
    );
}
