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
    inject_from("-", manifests)
}

fn inject_from(file: &str, manifests: &str) -> Output {
    // Tests run beside each other: a file of its own for each.
    let test = std::thread::current().name().unwrap().replace("::", "-");
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let ca = folder.join(format!("{test}.crt"));
    std::fs::write(&ca, "-----BEGIN CERTIFICATE-----\n").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-fairtide"))
        .args(["inject", "-f", file, "--sidecar-image", "sidecar:1"])
        .arg("--channel-ca")
        .arg(&ca)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that refuses its command line doesn't read.
    let _ = child.stdin.take().unwrap().write_all(manifests.as_bytes());
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

/// A container of an engine, in a template that asks by itself or not.
fn template(labels: &str) -> String {
    format!(
        "{{metadata: {{labels: {{{labels}}}}}, spec: {{containers: [{{name: e, image: 'vllm/vllm-openai:v0.11.0', args: [--model, m]}}]}}}}"
    )
}

#[test]
fn of_a_leader_worker_set_the_leader_is_injected_unless_workers_serve_too() {
    let asks = template("fairtide.dev/inject: enabled");
    let set = |leader: &str, worker: &str| {
        format!(
            "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {{name: big}}\nspec: {{leaderWorkerTemplate: {{{leader}workerTemplate: {worker}}}}}\n"
        )
    };
    let both = inject(&set(&format!("leaderTemplate: {asks}, "), &asks));
    let said = String::from_utf8_lossy(&both.stderr);
    let templates = &documents(&both)[0]["spec"]["leaderWorkerTemplate"];
    let leader = &templates["leaderTemplate"];
    assert_eq!(
        leader["spec"]["initContainers"][0]["name"], "fairtide-sidecar",
        "{said}"
    );
    let labels = leader["metadata"]["labels"].as_object().unwrap();
    assert!(
        labels.keys().all(|key| key.starts_with("fairtide.dev/")),
        "{labels:?}"
    );
    assert!(
        templates["workerTemplate"]["spec"]
            .get("initContainers")
            .is_none(),
        "{said}"
    );
    assert!(
        said.contains("LeaderWorkerSet/big (worker): left alone"),
        "{said}"
    );

    let alone = inject(&set("", &asks));
    let worker = documents(&alone)[0]["spec"]["leaderWorkerTemplate"]["workerTemplate"].clone();
    assert!(worker["spec"].get("initContainers").is_none());

    let all = asks.replacen(
        "metadata: {",
        "metadata: {annotations: {fairtide.dev/lws-roles: All}, ",
        1,
    );
    let all = inject(&set("", &all));
    let worker = documents(&all)[0]["spec"]["leaderWorkerTemplate"]["workerTemplate"].clone();
    assert_eq!(
        worker["spec"]["initContainers"][0]["name"],
        "fairtide-sidecar"
    );
}

#[test]
fn a_namespace_in_a_list_speaks_for_engines_and_not_for_jobs() {
    let silent = template("app: e");
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: Namespace, metadata: {{name: ai, labels: {{fairtide.dev/inject: enabled}}}}}}\n- {{kind: StatefulSet, metadata: {{name: s, namespace: ai}}, spec: {{template: {silent}}}}}\n- {{kind: Job, metadata: {{name: j, namespace: ai}}, spec: {{template: {silent}}}}}\n- {{kind: Job, metadata: {{name: k, namespace: ai}}, spec: {{template: {asks}}}}}\n",
        asks = template("fairtide.dev/inject: enabled"),
    );
    let output = inject(&list);
    let said = String::from_utf8_lossy(&output.stderr);
    let items = &documents(&output)[0]["items"];
    let sidecars = |index: usize| {
        let spec = &items[index]["spec"]["template"]["spec"];
        spec["initContainers"].as_array().map_or(0, Vec::len)
    };
    assert_eq!([1, 2, 3].map(sidecars), [1, 0, 1], "{said}");
    assert!(
        items[3]["spec"]["template"]["metadata"]
            .get("ownerReferences")
            .is_none()
    );
    assert!(
        said.contains("Job/j: left alone: the pod belongs to a Job"),
        "{said}"
    );
}

#[test]
fn a_folder_is_read_and_what_cannot_be_read_is_a_usage_error() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("inject-folder");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let name = folder.to_str().unwrap();
    for (file, says) in [
        (name, "has no *.yaml"),
        ("/nowhere/x.yaml", "write a file or folder of manifests"),
    ] {
        let output = inject_from(file, "");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(
            said.contains(says) && said.trim().lines().count() == 1,
            "{said}"
        );
    }
    let broken = inject("a: [");
    assert_eq!(broken.status.code(), Some(64), "{broken:?}");
    std::fs::write(folder.join("vllm.yaml"), DEPLOYMENT).unwrap();
    std::fs::write(folder.join("notes.txt"), "a: [").unwrap();
    let output = inject_from(name, "");
    assert_eq!(documents(&output).len(), 2, "{output:?}");
}
