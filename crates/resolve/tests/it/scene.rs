//! Builders for scenes.

use fairtide_api::{InferencePool, TrafficClass};
use fairtide_policy::{Class, Policy};
use fairtide_resolve::{Finding, Resolved, ResolvedClass, ResolvedPool, resolve};
use serde_json::{Value, json};

/// A pool whose spec differs from the plainest one by these fields. `age` in seconds since 1970.
pub fn pool(name: &str, age: i64, fields: Value) -> InferencePool {
    let mut spec = json!({
        "selector": { "matchLabels": { "app": name } },
        "targetPorts": [{ "number": 8000 }],
    });
    merge(&mut spec, fields);
    object("InferencePool", name, age, spec)
}

/// A class that serves the pool `llama`, of tier Interactive, but for these fields.
pub fn class(name: &str, age: i64, fields: Value) -> TrafficClass {
    let mut spec = json!({ "poolRefs": [{ "name": "llama" }], "tier": "Interactive" });
    merge(&mut spec, fields);
    object("TrafficClass", name, age, spec)
}

fn object<T: serde::de::DeserializeOwned>(kind: &str, name: &str, age: i64, spec: Value) -> T {
    serde_json::from_value(json!({
        "apiVersion": "traffic.fairtide.dev/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "prod",
            "generation": age,
            "labels": { "name": name },
            "creationTimestamp": format!("1970-01-01T00:{:02}:{:02}Z", age / 60, age % 60),
        },
        "spec": spec,
    }))
    .unwrap()
}

fn merge(into: &mut Value, fields: Value) {
    for (key, value) in fields.as_object().unwrap() {
        into[key] = value.clone();
    }
}

pub fn resolved(pools: &[InferencePool], classes: &[TrafficClass]) -> Resolved {
    resolve(pools, classes)
}

pub fn pool_in<'a>(resolved: &'a Resolved, name: &str) -> &'a ResolvedPool {
    resolved
        .pools
        .iter()
        .find(|pool| pool.key.name == name)
        .unwrap()
}

pub fn class_in<'a>(resolved: &'a Resolved, name: &str) -> &'a ResolvedClass {
    resolved
        .classes
        .iter()
        .find(|class| class.key.name == name)
        .unwrap()
}

pub fn policy<'a>(resolved: &'a Resolved, pool: &str) -> &'a Policy {
    pool_in(resolved, pool).policy.as_ref().unwrap()
}

pub fn served<'a>(resolved: &'a Resolved, class: &str) -> &'a Class {
    policy(resolved, "llama").class(class).unwrap()
}

/// Status, reason and message.
pub fn said(finding: Option<&Finding>) -> (&'static str, &'static str, String) {
    let finding = finding.expect("the condition is there");
    (
        finding.status.as_str(),
        finding.reason,
        finding.message.clone(),
    )
}

pub fn warned(resolved: &Resolved) -> Vec<(String, &'static str)> {
    resolved
        .warnings
        .iter()
        .map(|warning| {
            (
                format!("{} {}", warning.kind, warning.object),
                warning.reason,
            )
        })
        .collect()
}
