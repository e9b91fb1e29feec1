//! How objects name each other: by group, kind and name in their own namespace, or by labels.

use crate::{names, rules};
use kube::KubeSchema;
use schemars::{Schema, json_schema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names an InferencePool of the same namespace.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PoolReference {
    /// API group of the pool.
    #[serde(default = "group")]
    #[schemars(extend("enum" = [names::GROUP]))]
    pub group: String,
    /// Kind of the pool.
    #[serde(default = "pool_kind")]
    #[schemars(extend("enum" = [names::INFERENCE_POOL]))]
    pub kind: String,
    /// Name of the pool, in the namespace of this object.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = rules::OBJECT_NAME.rule())]
    pub name: String,
}

/// Names a TrafficClass of the same namespace.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ClassReference {
    /// API group of the class.
    #[serde(default = "group")]
    #[schemars(extend("enum" = [names::GROUP]))]
    pub group: String,
    /// Kind of the class.
    #[serde(default = "class_kind")]
    #[schemars(extend("enum" = [names::TRAFFIC_CLASS]))]
    pub kind: String,
    /// Name of the class, in the namespace of this object.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = rules::OBJECT_NAME.rule())]
    pub name: String,
}

/// Selects objects of the same namespace by their labels.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that an object must carry, all of them, with just these values.
    #[schemars(schema_with = "labels")]
    #[x_kube(validation = rules::LABELS.rule())]
    pub match_labels: BTreeMap<String, String>,
}

fn group() -> String {
    names::GROUP.to_owned()
}

fn pool_kind() -> String {
    names::INFERENCE_POOL.to_owned()
}

fn class_kind() -> String {
    names::TRAFFIC_CLASS.to_owned()
}

/// The bounds of the standard's `matchLabels`.
fn labels(_: &mut schemars::SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 63 },
    })
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Whether labels carry all that is asked for. A selector that asks for nothing matches
    /// nothing: it can only come from an object that isn't valid.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.match_labels.is_empty()
            && self
                .match_labels
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
    }
}

// === impl PoolReference ===

impl PoolReference {
    /// The InferencePool of a name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            group: group(),
            kind: pool_kind(),
            name: name.into(),
        }
    }
}

// === impl ClassReference ===

impl ClassReference {
    /// The TrafficClass of a name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            group: group(),
            kind: class_kind(),
            name: name.into(),
        }
    }
}
