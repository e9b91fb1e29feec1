//! Classes: which pools they serve, and what they are told.

use crate::scene::{class, class_in, policy, pool, resolved, said, warned};
use fairtide_resolve::ObjectKey;
use serde_json::json;

fn any_match() -> serde_json::Value {
    json!([{ "path": { "type": "Prefix", "value": "/" } }])
}

#[test]
fn a_pool_that_does_not_exist_is_named_with_those_that_do() {
    let resolved = resolved(
        &[pool("llama", 1, json!({})), pool("qwen", 1, json!({}))],
        &[class(
            "chat",
            1,
            json!({ "poolRefs": [{ "name": "lama" }] }),
        )],
    );
    let chat = class_in(&resolved, "chat");
    assert_eq!(
        said(chat.condition("ResolvedRefs")),
        (
            "False",
            "PoolNotFound",
            "spec.poolRefs names InferencePool \"lama\", not found in namespace \"prod\" (there are \"llama\", \"qwen\"): create it, or correct the name".to_owned()
        )
    );
    assert_eq!(said(chat.condition("Accepted")).0, "True");
    assert_eq!(chat.pools, []);
}

#[test]
fn the_pools_that_exist_are_served_beside_one_that_does_not() {
    let resolved = resolved(
        &[pool("llama", 1, json!({}))],
        &[class(
            "chat",
            1,
            json!({ "poolRefs": [{ "name": "lama" }, { "name": "llama" }] }),
        )],
    );
    let chat = class_in(&resolved, "chat");
    assert_eq!(said(chat.condition("ResolvedRefs")).1, "PoolNotFound");
    assert_eq!(chat.pools, [ObjectKey::new("prod", "llama")]);
    assert!(policy(&resolved, "llama").class("chat").is_some());
}

#[test]
fn a_pool_of_another_namespace_is_not_found() {
    let mut elsewhere = pool("llama", 1, json!({}));
    elsewhere.metadata.namespace = Some("dev".to_owned());
    let resolved = resolved(&[elsewhere], &[class("chat", 1, json!({}))]);
    let (_, reason, message) = said(class_in(&resolved, "chat").condition("ResolvedRefs"));
    assert_eq!(reason, "PoolNotFound");
    assert!(message.contains("(there is none yet)"), "{message}");
    assert!(policy(&resolved, "llama").class("chat").is_none());
}

#[test]
fn a_selector_serves_every_pool_that_carries_its_labels() {
    let selector = |name: &str| json!({ "poolRefs": null, "poolSelector": { "matchLabels": { "name": name } } });
    let resolved = resolved(
        &[pool("llama", 1, json!({})), pool("qwen", 1, json!({}))],
        &[
            class("chat", 1, selector("qwen")),
            class("lost", 2, selector("gemma")),
        ],
    );
    assert!(policy(&resolved, "qwen").class("chat").is_some());
    assert!(policy(&resolved, "llama").class("chat").is_none());
    let (status, reason, message) = said(class_in(&resolved, "lost").condition("ResolvedRefs"));
    assert_eq!((status, reason), ("False", "PoolNotFound"));
    assert!(message.contains("label a pool so"), "{message}");
}

#[test]
fn a_class_of_an_invalid_pool_is_told_so() {
    let resolved = resolved(
        &[pool("llama", 1, json!({ "targetPorts": [] }))],
        &[class("chat", 1, json!({}))],
    );
    let chat = class_in(&resolved, "chat");
    assert_eq!(said(chat.condition("ResolvedRefs")).1, "PoolInvalid");
    assert_eq!(chat.pools, []);
}

#[test]
fn an_invalid_class_is_left_out_with_all_its_faults() {
    let resolved = resolved(
        &[pool("llama", 1, json!({}))],
        &[
            class("bad", 1, json!({ "weight": -1, "minShare": 95 })),
            class("good", 2, json!({})),
        ],
    );
    assert_eq!(
        said(class_in(&resolved, "bad").condition("Accepted")),
        (
            "False",
            "Invalid",
            "spec.minShare: must be 0 to 90, but is 95; spec.weight: must be 1 to 1000000, but is -1".to_owned()
        )
    );
    assert!(policy(&resolved, "llama").class("bad").is_none());
    assert!(policy(&resolved, "llama").class("good").is_some());
}

#[test]
fn batch_before_interactive_is_allowed_and_warned_about() {
    let resolved = resolved(
        &[pool(
            "llama",
            1,
            json!({ "defaultClass": { "name": "chat" } }),
        )],
        &[
            class("chat", 1, json!({})),
            class(
                "night",
                2,
                json!({ "tier": "Batch", "priority": 200, "match": any_match() }),
            ),
        ],
    );
    assert_eq!(
        warned(&resolved),
        [("TrafficClass prod/night".to_owned(), "BatchFirst")]
    );
    assert!(
        resolved.warnings[0]
            .message
            .contains("set spec.priority to 100 or less")
    );
    assert_eq!(
        policy(&resolved, "llama").class("night").unwrap().priority,
        200
    );
}

#[test]
fn batch_of_equal_priority_is_nothing_to_warn_about() {
    let resolved = resolved(
        &[pool(
            "llama",
            1,
            json!({ "defaultClass": { "name": "chat" } }),
        )],
        &[
            class("chat", 1, json!({})),
            class(
                "night",
                2,
                json!({ "tier": "Batch", "priority": 100, "match": any_match() }),
            ),
        ],
    );
    assert_eq!(warned(&resolved), []);
}

#[test]
fn a_class_that_no_request_reaches_is_warned_about() {
    let without = json!({});
    let with = json!({ "tenancy": { "trustedCIDRs": ["10.0.0.0/8"] } });
    let resolved_one = resolved(&[pool("llama", 1, without)], &[class("chat", 1, json!({}))]);
    assert_eq!(
        warned(&resolved_one),
        [("TrafficClass prod/chat".to_owned(), "Unreachable")]
    );
    // Whoever is trusted may name it.
    let resolved_two = resolved(&[pool("llama", 1, with)], &[class("chat", 1, json!({}))]);
    assert_eq!(warned(&resolved_two), []);
}
