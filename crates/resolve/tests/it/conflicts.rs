//! Classes that take the same requests.

use crate::scene::{class, class_in, pool, resolved, said};
use fairtide_api::TrafficClass;
use fairtide_resolve::Resolved;
use serde_json::{Value, json};

fn with(classes: &[TrafficClass]) -> Resolved {
    resolved(&[pool("llama", 1, json!({}))], classes)
}

fn path(name: &str, age: i64, precedence: i32, value: &str) -> TrafficClass {
    let entry = json!({ "precedence": precedence, "path": { "type": "Prefix", "value": value } });
    class(name, age, json!({ "match": [entry] }))
}

#[test]
fn the_younger_of_two_that_match_the_same_is_told_who_wins_and_what_to_set() {
    let resolved = with(&[path("young", 2, 0, "/v1/chat"), path("old", 1, 0, "/v1/")]);
    assert_eq!(class_in(&resolved, "old").condition("Conflicted"), None);
    assert_eq!(
        said(class_in(&resolved, "young").condition("Conflicted")),
        (
            "True",
            "MatchOverlap",
            "spec.match[0] takes some of the same requests as the older class \"old\" on pool \"llama\", both with precedence 0: \"old\" gets them. Set spec.match[0].precedence above 0 to have them here, or below to leave them there".to_owned()
        )
    );
    assert_eq!(
        said(class_in(&resolved, "young").condition("Accepted")).0,
        "True"
    );
}

#[test]
fn another_precedence_settles_it() {
    let resolved = with(&[path("young", 2, 1, "/v1/chat"), path("old", 1, 0, "/v1/")]);
    assert_eq!(class_in(&resolved, "young").condition("Conflicted"), None);
}

#[test]
fn matches_that_exclude_each_other_are_no_conflict() {
    let resolved = with(&[
        path("young", 2, 0, "/v1/chat"),
        path("old", 1, 0, "/v1/completions"),
    ]);
    assert_eq!(class_in(&resolved, "young").condition("Conflicted"), None);
}

#[test]
fn header_names_are_compared_without_case() {
    let header = |name: &str, value: &str| -> Value {
        json!({ "match": [{ "headers": [{ "name": name, "value": value }] }] })
    };
    let apart = with(&[
        class("a", 1, header("X-Job", "a")),
        class("b", 2, header("x-job", "b")),
    ]);
    assert_eq!(class_in(&apart, "b").condition("Conflicted"), None);
    let same = with(&[
        class("a", 1, header("X-Job", "a")),
        class("b", 2, header("x-job", "a")),
    ]);
    assert!(class_in(&same, "b").condition("Conflicted").is_some());
}

#[test]
fn classes_that_meet_on_no_pool_are_no_conflict() {
    let mut other = path("young", 2, 0, "/v1/");
    other.spec.pool_refs = Some(vec![fairtide_api::PoolReference::new("qwen")]);
    let resolved = resolved(
        &[pool("llama", 1, json!({})), pool("qwen", 1, json!({}))],
        &[path("old", 1, 0, "/v1/"), other],
    );
    assert_eq!(class_in(&resolved, "young").condition("Conflicted"), None);
}

#[test]
fn many_conflicts_are_told_in_few_words() {
    let classes: Vec<_> = (0..60)
        .map(|n| path(&format!("c{n:02}"), n, 0, "/v1/"))
        .collect();
    let resolved = with(&classes);
    let (_, _, message) = said(class_in(&resolved, "c59").condition("Conflicted"));
    assert!(
        message.contains("\"c00\"") && message.ends_with("and so with 56 more classes"),
        "{message}"
    );
    assert!(message.len() < 1000, "{}", message.len());
}
