//! The custom resource definitions as they are published.
//!
//! What the derive gives is polished: an optional field isn't `nullable` (null is pruned by the API
//! server and means unset, so that `has()` in a rule can't be fooled by a null), bounds of integers
//! are integers, and a description's lines are joined.

use crate::{InferencePool, TrafficClass};
use kube::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};
use std::sync::LazyLock;

static POOL: LazyLock<Value> = LazyLock::new(published::<InferencePool>);
static CLASS: LazyLock<Value> = LazyLock::new(published::<TrafficClass>);

/// The definitions of both kinds.
pub fn crds() -> [&'static Value; 2] {
    [&POOL, &CLASS]
}

/// The definition of one kind.
fn published<T: CustomResourceExt>() -> Value {
    let crd = serde_json::to_value(T::crd()).expect("a definition has only string keys");
    polish(crd, true)
}

pub(crate) fn pool_schema() -> &'static Value {
    &POOL["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

pub(crate) fn class_schema() -> &'static Value {
    &CLASS["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// `is_schema`: the members of this object are keywords, not the names of fields.
fn polish(value: Value, is_schema: bool) -> Value {
    match value {
        Value::Object(members) => {
            let mut polished = Map::new();
            for (key, member) in members {
                if is_schema && key == "nullable" {
                    continue;
                }
                let member = match member {
                    Value::String(text) if is_schema && key == "description" => {
                        Value::String(join_lines(&text))
                    }
                    member => polish(member, !(is_schema && key == "properties")),
                };
                polished.insert(key, member);
            }
            Value::Object(polished)
        }
        Value::Array(entries) => entries.into_iter().map(|e| polish(e, is_schema)).collect(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if !number.is_i64() && float.fract() == 0.0 => (float as i64).into(),
            _ => Value::Number(number),
        },
        other => other,
    }
}

/// Paragraphs stay, lines within them are joined.
fn join_lines(text: &str) -> String {
    text.split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// `conditions` of a status: the standard's fields with the standard's bounds, one entry a type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the object's state.",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "type": "string",
                    "description": "Which aspect.",
                    "minLength": 1,
                    "maxLength": 316,
                },
                "status": {
                    "type": "string",
                    "description": "Whether it holds.",
                    "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "description": "The object's generation that this was found for.",
                    "minimum": 0,
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When status last changed.",
                },
                "reason": {
                    "type": "string",
                    "description": "Why, in one CamelCase word.",
                    "minLength": 1,
                    "maxLength": 1024,
                },
                "message": {
                    "type": "string",
                    "description": "Why, in a sentence that says what to do.",
                    "maxLength": 32768,
                },
            },
        },
    })
}
