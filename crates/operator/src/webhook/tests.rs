use super::*;
use crate::channel::ca::Authority;
use prometheus_client::registry::Registry;
use serde_json::json;
use std::time::SystemTime;

fn authorities() -> Arc<Authorities> {
    let made = Authority::make(SystemTime::now(), Duration::from_secs(3_600));
    Arc::new(Authorities::new(Arc::new(made.unwrap()), None, None))
}

fn webhook() -> Webhook {
    Webhook {
        world: Arc::default(),
        namespaces: Namespaces::default(),
        sidecar_image: "fairtide-sidecar:test".to_owned(),
        channel_url: "https://fairtide-operator.fairtide-system.svc:8443".to_owned(),
        authorities: watch::channel(authorities()).1,
        kubernetes: ArcSwapOption::empty(),
        metrics: Arc::new(Metrics::register(&mut Registry::default())),
        stop: CancellationToken::new(),
    }
}

fn pod(args: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "e", "labels": {"fairtide.dev/inject": "enabled"}},
        "spec": {
            "containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.11.0", "args": args}],
            "aFieldOfTomorrow": {"kept": true},
        },
    })
}

fn review(pod: &Value) -> Vec<u8> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u-1", "namespace": "llm", "operation": "CREATE", "object": pod},
    });
    serde_json::to_vec(&review).unwrap()
}

fn answered(webhook: &Webhook, pod: &Value) -> Value {
    let answer = webhook.answer(&review(pod)).unwrap();
    serde_json::to_value(answer).unwrap()
}

#[test]
fn before_anything_is_listed_a_pod_gets_the_sidecar_by_a_base64_patch() {
    let pod = pod(json!(["--model", "m"]));
    let answer = answered(&webhook(), &pod);
    let response = &answer["response"];
    assert_eq!(response["uid"], "u-1");
    assert_eq!(response["allowed"], true);
    assert_eq!(response["patchType"], "JSONPatch");
    let patch: k8s_openapi::ByteString = serde_json::from_value(response["patch"].clone()).unwrap();
    let patch: fairtide_inject::Patch = serde_json::from_slice(&patch.0).unwrap();
    let mut after = pod;
    patch.apply(&mut after).unwrap();
    assert_eq!(after["spec"]["aFieldOfTomorrow"], json!({"kept": true}));
    assert_eq!(
        after["spec"]["initContainers"][0]["name"],
        "fairtide-sidecar"
    );
}

#[test]
fn what_cannot_be_injected_is_refused_with_a_sentence() {
    let mut pod = pod(json!([]));
    pod["spec"]["containers"][0]["command"] = json!(["sh", "-c", "vllm serve $M & wait"]);
    let response = answered(&webhook(), &pod)["response"].clone();
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 403);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("fairtide: "), "{message}");
    assert!(response.get("patch").is_none());
}

#[test]
fn a_pod_that_nobody_asked_for_passes_unchanged() {
    let mut pod = pod(json!([]));
    pod["metadata"]["labels"] = json!({});
    let response = answered(&webhook(), &pod)["response"].clone();
    assert_eq!(response["allowed"], true);
    assert!(response.get("patch").is_none());
}

#[test]
fn what_is_no_review_is_said_to_be_none() {
    for body in ["", "[]", "{}", r#"{"request":{"uid":"u"}}"#] {
        assert!(webhook().answer(body.as_bytes()).is_err(), "{body}");
    }
}

#[test]
fn versions_of_clouds_are_read_too() {
    let read = version("1", "33+").unwrap();
    assert_eq!((read.major, read.minor), (1, 33));
    assert!(version("1", "").is_none());
}
