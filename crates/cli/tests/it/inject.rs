//! `inject -f`, as in a pipeline.

use serde_json::Value;
use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm, namespace: ai}
spec:
  unknownField: {kept: [1, 2.5]}
  template:
    metadata: {labels: {app: vllm, fairtide.dev/inject: enabled}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.11.0
        args: [--model, m]
        ports: [{containerPort: 8000}]
---
# nothing
---
apiVersion: v1
kind: Service
metadata: {name: vllm}
spec: {ports: [{port: 80, targetPort: 8000}]}
"#;

fn inject(manifests: &str) -> Output {
    // Tests run beside each other: a file of its own for each.
    let test = std::thread::current().name().unwrap().replace("::", "-");
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let ca = folder.join(format!("{test}.crt"));
    std::fs::write(&ca, "-----BEGIN CERTIFICATE-----\n").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-fairtide"))
        .args([
            "inject",
            "-f",
            "-",
            "--sidecar-image",
            "sidecar:1",
            "--channel-ca",
        ])
        .arg(&ca)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(manifests.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn documents(output: &Output) -> Vec<Value> {
    use serde::Deserialize;
    let text = std::str::from_utf8(&output.stdout).unwrap();
    serde_yaml::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

#[test]
fn a_deployment_comes_out_with_the_sidecar_and_all_else_as_it_was() {
    let output = inject(DEPLOYMENT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Deployment/vllm: injected"), "{said}");
    let [deployment, service] = &documents(&output)[..] else {
        panic!("{output:?}");
    };
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["initContainers"][0]["image"], "sidecar:1");
    assert_eq!(pod["containers"][0]["args"][3], "28000");
    assert_eq!(deployment["spec"]["unknownField"]["kept"][1], 2.5);
    assert!(deployment["spec"]["template"].get("kind").is_none());
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 8000);

    let text = String::from_utf8(output.stdout).unwrap();
    let again = inject(&text);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), text);
}

#[test]
fn a_list_and_a_cron_job_are_looked_into_and_what_did_not_ask_is_left_alone() {
    let cron = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: batch/v1\n  kind: CronJob\n  metadata: {name: nightly}\n  spec: {jobTemplate: {spec: {template: {metadata: {labels: {fairtide.dev/inject: enabled}}, spec: {containers: [{name: e, image: 'vllm/vllm-openai:v0.11.0', args: [--model, m]}]}}}}}\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: web}\n  spec: {containers: [{name: w, image: 'nginx:1'}]}\n";
    let output = inject(cron);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Pod/web: left alone: neither"), "{said}");
    let list = &documents(&output)[0];
    let pod = &list["items"][0]["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    assert_eq!(
        pod["initContainers"][0]["name"], "fairtide-sidecar",
        "{said}"
    );
    assert!(list["items"][1]["spec"].get("initContainers").is_none());
}

#[test]
fn a_refusal_says_what_to_write_and_nothing_comes_out() {
    let wrapped = DEPLOYMENT.replace(
        "args: [--model, m]",
        "command: [sh, -c, 'vllm serve m | tee /log']",
    );
    let output = inject(&wrapped);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("Deployment/vllm: refused: ") && said.contains("fairtide.dev/takeover"),
        "{said}"
    );
    assert!(output.stdout.is_empty());
}
