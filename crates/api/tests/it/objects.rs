//! The tables of good and bad objects.

use fairtide_api::{InferencePool, TrafficClass, Violation, crds, names, parse};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
pub struct Sample {
    pub about: String,
    pub kind: String,
    pub spec: Value,
    #[serde(default)]
    pub faults: Vec<String>,
}

pub fn bad() -> Vec<Sample> {
    serde_yaml::from_str(include_str!("../bad_objects.yaml")).unwrap()
}

pub fn good() -> Vec<Sample> {
    serde_yaml::from_str(include_str!("../good_objects.yaml")).unwrap()
}

impl Sample {
    pub fn object(&self) -> Value {
        self.object_named("sample")
    }

    pub fn object_named(&self, name: &str) -> Value {
        json!({
            "apiVersion": names::API_VERSION,
            "kind": self.kind,
            "metadata": { "name": name },
            "spec": self.spec,
        })
    }

    /// What `parse` says.
    pub fn parsed(&self) -> Vec<Violation> {
        faults(&self.kind, self.object())
    }
}

pub fn faults(kind: &str, object: Value) -> Vec<Violation> {
    match kind {
        names::INFERENCE_POOL => parse::<InferencePool>(object).err(),
        names::TRAFFIC_CLASS => parse::<TrafficClass>(object).err(),
        other => panic!("no kind {other}"),
    }
    .unwrap_or_default()
}

/// The published schema of a kind.
pub fn schema(kind: &str) -> &'static Value {
    let crd = crds()
        .into_iter()
        .find(|crd| crd["spec"]["names"]["kind"] == kind)
        .unwrap();
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// Every place of a schema that carries rules.
pub fn rules(schema: &Value) -> Vec<&Value> {
    let mut found: Vec<&Value> = schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    for part in ["properties"] {
        for member in schema[part].as_object().into_iter().flatten() {
            found.extend(rules(member.1));
        }
    }
    for part in ["items", "additionalProperties"] {
        if schema[part].is_object() {
            found.extend(rules(&schema[part]));
        }
    }
    found
}
