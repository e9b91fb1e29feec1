//! That nothing in a manifest is passed over in silence.

use crate::objects::faults;
use fairtide_api::{InferencePool, Kind, TrafficClass, parse, validate};
use serde_json::{Value, json};

fn class() -> Value {
    json!({
        "apiVersion": "traffic.fairtide.dev/v1alpha1",
        "kind": "TrafficClass",
        "metadata": { "name": "chat" },
        "spec": { "poolRefs": [{ "name": "llama" }], "tier": "Interactive" },
    })
}

fn said(object: Value) -> Vec<String> {
    faults("TrafficClass", object)
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn with(path: &str, value: Value) -> Value {
    let mut object = class();
    let (parent, last) = path.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[last] = value;
    object
}

#[test]
fn unset_fields_stay_unset() {
    let class = parse::<TrafficClass>(class()).unwrap();
    assert_eq!(class.spec.weight, None);
    assert_eq!(class.spec.min_share, None);
    assert_eq!(class.namespace_or_default(), "default");
    let written = serde_json::to_value(&class.spec).unwrap();
    assert_eq!(
        written,
        json!({ "poolRefs": [{ "group": "traffic.fairtide.dev", "kind": "InferencePool", "name": "llama" }], "tier": "Interactive" })
    );
}

#[test]
fn a_field_beside_spec_is_reported() {
    assert_eq!(
        said(with("/sepc", json!({}))),
        ["sepc: unknown field; did you mean \"spec\"?"]
    );
}

#[test]
fn a_slip_in_metadata_is_reported() {
    assert_eq!(
        said(with("/metadata/label", json!({}))),
        ["metadata.label: unknown field; did you mean \"labels\"?"]
    );
    assert_eq!(
        said(with("/metadata/name", json!("Chat"))),
        [
            "metadata.name: must be the name of an object: lower-case letters, digits, '-' and '.', such as \"chat-prod\""
        ]
    );
    assert_eq!(
        said(with("/metadata/name", Value::Null)),
        ["metadata.name: is missing: write a name"]
    );
    assert!(said(with("/metadata/labels", json!(["a"])))[0].starts_with("metadata.labels: "));
}

#[test]
fn another_version_is_told_which_to_write() {
    assert_eq!(
        said(with("/apiVersion", json!("traffic.fairtide.dev/v1"))),
        [
            "apiVersion: must be \"traffic.fairtide.dev/v1alpha1\", but is \"traffic.fairtide.dev/v1\""
        ]
    );
}

#[test]
fn an_object_without_spec_is_told_what_belongs_there() {
    let mut object = class();
    object.as_object_mut().unwrap().remove("spec");
    let said = said(object);
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with("spec: is missing: write it with "),
        "{said:?}"
    );
    assert!(
        said[0].contains("poolRefs") && said[0].contains("tier"),
        "{said:?}"
    );
}

#[test]
fn what_a_cluster_prints_can_be_read_back() {
    let mut object = class();
    object["metadata"] = json!({
        "name": "chat", "namespace": "prod", "uid": "2b1c", "generation": 7, "resourceVersion": "12",
        "creationTimestamp": "2026-01-02T03:04:05Z", "managedFields": [],
    });
    object["status"] = json!({ "observedGeneration": 7, "whatever": true });
    let class = parse::<TrafficClass>(object).unwrap();
    assert_eq!(class.metadata.generation, Some(7));
    assert!(class.metadata.creation_timestamp.is_some());
    assert_eq!(class.status, None);
}

#[test]
fn all_faults_come_at_once() {
    let mut object = with("/spec/weight", json!(0));
    object["spec"]["tier"] = json!("Fast");
    object["spec"]["colour"] = json!("red");
    assert_eq!(said(object).len(), 3);
}

#[test]
fn a_typed_object_from_an_older_definition_is_checked_as_well() {
    let mut pool: InferencePool = serde_json::from_value(json!({
        "apiVersion": "traffic.fairtide.dev/v1alpha1",
        "kind": "InferencePool",
        "metadata": { "name": "llama" },
        "spec": { "selector": { "matchLabels": { "app": "vllm" } }, "targetPorts": [{ "number": 8000 }] },
    }))
    .unwrap();
    assert_eq!(validate(&pool), []);
    pool.spec.target_ports[0].number = 0;
    assert_eq!(
        validate(&pool)[0].to_string(),
        "spec.targetPorts[0].number: must be 1 to 65535, but is 0"
    );
}
