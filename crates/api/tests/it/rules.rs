//! That each rule means the same as CEL and as Rust.

use crate::objects::{Sample, bad, faults, good, rules, schema};
use kube::core::cel::Validator;
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[test]
fn every_bad_object_gets_just_these_messages() {
    for sample in bad() {
        let said: Vec<String> = sample.parsed().iter().map(ToString::to_string).collect();
        assert_eq!(said, sample.faults, "{}", sample.about);
    }
}

#[test]
fn every_good_object_is_accepted() {
    for sample in good() {
        assert_eq!(sample.parsed(), [], "{} ({})", sample.about, sample.kind);
    }
}

#[test]
fn cel_says_the_same_as_rust() {
    for sample in bad().iter().chain(&good()) {
        let rust = by_rule(&sample.kind, &sample.object());
        if let Some(rust) = rust {
            let cel = by_cel(&sample.kind, &sample.object());
            assert_eq!(rust, cel, "{} ({})", sample.about, sample.kind);
        }
    }
}

#[test]
fn every_rule_is_broken_by_some_bad_object() {
    let samples = bad();
    for kind in ["InferencePool", "TrafficClass"] {
        for rule in rules(schema(kind)) {
            let message = rule["message"].as_str().unwrap();
            assert!(
                samples
                    .iter()
                    .any(|sample| sample.faults.iter().any(|said| said.ends_with(message))),
                "no bad {kind} for the rule {}",
                rule["rule"]
            );
        }
    }
}

/// Texts at the edges of what some rule takes.
const TEXTS: &[&str] = &[
    "",
    "a",
    "-",
    "a-",
    "-a",
    "A",
    "a.b",
    "a..b",
    ".a",
    "a.",
    "a_b",
    "_",
    "x y",
    "x:",
    "/",
    "/a",
    "/a?b",
    "a/b",
    "a/",
    "/a#b",
    "a/b/c",
    "a.b/c",
    "a./c",
    "A/b",
    "10s",
    "10ms",
    "9ms",
    "999ms",
    "1s",
    "24h",
    "24h1ms",
    "23h60m",
    "0s",
    "00s",
    "s",
    "1",
    "1d",
    "1m1m1m1m",
    "1m1m1m1m1m",
    "00001s",
    "000001s",
    "1S",
    " 1s",
    "-1s",
    "1.5s",
    "1sm",
    "10.0.0.0/8",
    "10.0.0.0/33",
    "10.0.0.0/08",
    "10.0.0.0/",
    "10.0.0/8",
    "010.0.0.0/8",
    "256.0.0.0/8",
    "10.0.0.0.0/8",
    "::/0",
    "::/00",
    "::/129",
    "::/128",
    "::",
    "a::1.2.3.4/128",
    "1.2::/64",
    "fe80::1%eth0/64",
    "g::/1",
    "x-tenant",
    "X-Tenant",
    "x'y",
    "x\"y",
    "x|y~",
    "x,y",
    "é",
    "a\u{301}",
    "a\n",
    "\n",
    "a\tb",
    "messages[0].role",
    "a-b.c_d",
];

/// The places of a text that some rule looks at, in an object that is valid otherwise.
const PLACES: &[(&str, &str, &str)] = &[
    ("InferencePool", "/spec/defaultClass/name", "{name: TEXT}"),
    ("InferencePool", "/spec/selector/matchLabels", "{TEXT: a}"),
    ("InferencePool", "/spec/selector/matchLabels", "{app: TEXT}"),
    ("InferencePool", "/spec/tenancy", "{trustedCIDRs: [TEXT]}"),
    (
        "InferencePool",
        "/spec/tenancy",
        "{sources: [{type: Header, header: {name: TEXT}}]}",
    ),
    ("TrafficClass", "/spec/poolRefs", "[{name: TEXT}]"),
    ("TrafficClass", "/spec/atLeastEvery", "TEXT"),
    (
        "TrafficClass",
        "/spec/bucket",
        "{rate: 1, unit: Tokens, per: TEXT}",
    ),
    ("TrafficClass", "/spec/queue", "{ttl: TEXT}"),
    ("TrafficClass", "/spec/match", "[{path: {value: TEXT}}]"),
    (
        "TrafficClass",
        "/spec/match",
        "[{headers: [{name: TEXT, value: a}]}]",
    ),
    (
        "TrafficClass",
        "/spec/match",
        "[{jsonField: {path: TEXT, value: a}}]",
    ),
];

fn with_text(place: &(&str, &str, &str), text: &str) -> (String, Value) {
    let (kind, pointer, template) = place;
    let base = good()
        .into_iter()
        .find(|sample| sample.kind == *kind)
        .unwrap();
    let mut object = base.object();
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let text = serde_json::to_string(text).unwrap();
    object.pointer_mut(parent).unwrap()[last] =
        serde_yaml::from_str(&template.replace("TEXT", &text)).unwrap();
    (kind.to_string(), object)
}

#[test]
fn cel_and_rust_agree_on_every_text_at_the_edge() {
    let (mut taken, mut refused) = (0, 0);
    for place in PLACES {
        for text in TEXTS {
            let (kind, object) = with_text(place, text);
            if let Some(rust) = by_rule(&kind, &object) {
                if rust.is_empty() {
                    taken += 1
                } else {
                    refused += 1
                }
                assert_eq!(rust, by_cel(&kind, &object), "{text:?} at {place:?}");
            }
        }
    }
    assert!(
        taken > 100 && refused > 300,
        "{taken} taken, {refused} refused"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn cel_and_rust_agree_on_any_text(
        place in select(PLACES),
        text in "[-a-zA-Z0-9._:/%?#' é]{1,10}|[0-9]{1,6}(h|m|s|ms|d)([0-9]{1,2}(m|s|ms))?|[0-9.]{7,11}/[0-9]{1,3}|[0-9a-f:.]{2,9}/[0-9]{1,3}",
    ) {
        let (kind, object) = with_text(&place, &text);
        if let Some(rust) = by_rule(&kind, &object) {
            prop_assert_eq!(rust, by_cel(&kind, &object), "{:?}", text);
        }
    }

    /// Small changes to good and bad objects, so that verdicts fall on both sides.
    #[test]
    fn cel_and_rust_agree_on_objects_that_nobody_thought_of(
        sample in 0..(good().len() + bad().len()),
        edits in prop::collection::vec((any::<prop::sample::Index>(), edit()), 0..4),
    ) {
        let samples: Vec<Sample> = good().into_iter().chain(bad()).collect();
        let sample = &samples[sample];
        let mut object = without_nulls(sample.object());
        for (place, edit) in edits {
            let mut places = Vec::new();
            leaves(&object["spec"], String::from("/spec"), &mut places);
            if places.is_empty() {
                break;
            }
            let place = place.get(&places).clone();
            apply(&mut object, &place, &edit);
        }
        if let Some(rust) = by_rule(&sample.kind, &object) {
            prop_assert_eq!(rust, by_cel(&sample.kind, &object), "{}", object);
        }
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Put(Value),
    Remove,
    Twice,
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        select(TEXTS).prop_map(|text| Edit::Put(json!(text))),
        (0..40i64).prop_map(|number| Edit::Put(json!(number))),
        Just(Edit::Remove),
        Just(Edit::Twice),
    ]
}

fn apply(object: &mut Value, place: &str, edit: &Edit) {
    let (parent, last) = place.rsplit_once('/').unwrap();
    let value = object.pointer(place).cloned();
    match (object.pointer_mut(parent), edit, value) {
        (Some(Value::Object(members)), Edit::Remove, _) => {
            members.remove(&last.replace("~1", "/"));
        }
        (Some(Value::Array(entries)), Edit::Remove, _) => {
            entries.remove(last.parse::<usize>().unwrap());
        }
        (Some(Value::Array(entries)), Edit::Twice, Some(value)) => entries.push(value),
        (_, Edit::Put(new), Some(_)) => *object.pointer_mut(place).unwrap() = new.clone(),
        _ => {}
    }
}

fn leaves(value: &Value, path: String, found: &mut Vec<String>) {
    if path != "/spec" {
        found.push(path.clone());
    }
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                leaves(member, format!("{path}/{}", key.replace('/', "~1")), found);
            }
        }
        Value::Array(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                leaves(entry, format!("{path}/{index}"), found);
            }
        }
        _ => {}
    }
}

type Said = BTreeSet<(String, String)>;

/// What Rust says by rules; `None` where the schema's bounds already refuse, since the API server
/// doesn't look at rules then.
fn by_rule(kind: &str, object: &Value) -> Option<Said> {
    let messages: BTreeSet<&str> = rules(schema(kind))
        .into_iter()
        .map(|rule| rule["message"].as_str().unwrap())
        .collect();
    let said = faults(kind, object.clone());
    let by_schema = |said: &fairtide_api::Violation| !messages.contains(said.message.as_str());
    if said.iter().any(by_schema) {
        return None;
    }
    Some(said.into_iter().map(|v| (v.path, v.message)).collect())
}

/// What the CEL interpreter says of what the API server would look at, null pruned.
fn by_cel(kind: &str, object: &Value) -> Said {
    let object = without_nulls(object.clone());
    match Validator::new().validate(schema(kind), &object, None) {
        Ok(()) => Said::new(),
        Err(errors) => errors
            .into_vec()
            .into_iter()
            .map(|error| (error.field_path, error.message))
            .collect(),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(key, member)| (key, without_nulls(member)))
            .collect(),
        Value::Array(entries) => entries.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
