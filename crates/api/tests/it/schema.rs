//! What every published schema must be like, whatever fields come later.

use crate::objects::{rules, schema};
use fairtide_api::crds;
use serde_json::{Map, Value};

/// Keywords that the walk of `validate` obeys, or that bind nothing.
const KNOWN: [&str; 19] = [
    "additionalProperties",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "properties",
    "required",
    "title",
    "type",
    "x-kubernetes-validations",
];

fn each_node(schema: &Value, path: &str, see: &mut impl FnMut(&str, &Map<String, Value>)) {
    let node = schema.as_object().unwrap();
    see(path, node);
    for (name, member) in node
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        each_node(member, &format!("{path}.{name}"), see);
    }
    for part in ["items", "additionalProperties"] {
        if let Some(member) = node.get(part) {
            each_node(member, &format!("{path}[]"), see);
        }
    }
}

fn each(mut see: impl FnMut(&str, &Map<String, Value>)) {
    for kind in ["InferencePool", "TrafficClass"] {
        each_node(schema(kind), kind, &mut see);
    }
}

#[test]
fn validate_knows_every_keyword() {
    each(|path, node| {
        for keyword in node.keys() {
            assert!(
                KNOWN.contains(&keyword.as_str()) || keyword.starts_with("x-kubernetes-list-"),
                "{path} has {keyword}: teach it to validate()"
            );
        }
    });
}

#[test]
fn everything_is_described_and_bounded() {
    each(|path, node| {
        let has = |keyword: &str| node.contains_key(keyword);
        if !path.ends_with("[]") || node["type"] == "object" {
            assert!(has("description"), "{path} has no description");
        }
        match node["type"].as_str().unwrap() {
            "string" => assert!(
                has("maxLength") || has("enum") || has("format"),
                "{path} has no maxLength"
            ),
            "array" => {
                assert!(has("maxItems"), "{path} has no maxItems");
                assert!(has("x-kubernetes-list-type"), "{path} has no list type");
            }
            "integer" => assert!(
                has("minimum") || path.ends_with(".observedGeneration"),
                "{path} has no minimum"
            ),
            "object" => assert!(
                has("properties") || has("maxProperties"),
                "{path} has no maxProperties"
            ),
            other => panic!("{path} is a {other}: no floats and no free forms in the API"),
        }
        for bound in ["minimum", "maximum"] {
            assert!(
                node.get(bound).is_none_or(Value::is_i64),
                "{path} has a {bound} with a fraction"
            );
        }
        assert!(!has("nullable"), "{path} takes null for a value");
        assert!(
            node.get("default")
                .is_none_or(|default| !default.is_array()),
            "{path} writes an empty list into users' objects"
        );
    });
}

#[test]
fn every_rule_has_a_message_in_one_line() {
    for kind in ["InferencePool", "TrafficClass"] {
        for rule in rules(schema(kind)) {
            let message = rule["message"].as_str().unwrap_or_default();
            assert!(!message.is_empty() && !message.contains('\n'), "{rule}");
        }
    }
}

#[test]
fn names_and_columns_are_what_the_documentation_says() {
    for (crd, short) in crds().into_iter().zip(["ftpool", "ftclass"]) {
        let names = &crd["spec"]["names"];
        assert_eq!(names["shortNames"], serde_json::json!([short]));
        assert_eq!(names["categories"], serde_json::json!(["fairtide"]));
        assert_eq!(crd["spec"]["group"], "traffic.fairtide.dev");
        assert_eq!(crd["spec"]["scope"], "Namespaced");
        let version = &crd["spec"]["versions"][0];
        assert!(version["subresources"]["status"].is_object());
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        let columns: Vec<&str> = columns
            .iter()
            .map(|c| c["name"].as_str().unwrap())
            .collect();
        assert!(
            columns.contains(&"Ready") && columns.last() == Some(&"Age"),
            "{columns:?}"
        );
        assert!(serde_json::to_string(crd).unwrap().len() < 100_000);
    }
}
