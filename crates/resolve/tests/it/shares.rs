//! Guaranteed shares: what is promised is kept, and no more is promised than there is.

use crate::scene::{class, class_in, pool, resolved, said, served};
use fairtide_api::TrafficClass;
use fairtide_resolve::Resolved;
use serde_json::json;

fn batch(name: &str, age: i64, share: Option<i32>) -> TrafficClass {
    class(name, age, json!({ "tier": "Batch", "minShare": share }))
}

fn with(classes: &[TrafficClass]) -> Resolved {
    resolved(&[pool("llama", 1, json!({}))], classes)
}

#[test]
fn the_youngest_promise_above_90_counts_as_0_and_is_told_what_to_lower() {
    let resolved = with(&[batch("b", 2, Some(40)), batch("a", 1, Some(60))]);
    assert_eq!(served(&resolved, "a").min_share, 60);
    assert_eq!(served(&resolved, "b").min_share, 0);
    assert_eq!(
        said(class_in(&resolved, "a").condition("Accepted")).1,
        "Accepted"
    );
    assert_eq!(
        said(class_in(&resolved, "b").condition("Accepted")),
        (
            "True",
            "MinShareOverPromised",
            "minShare 40 counts as 0 on pool \"llama\": older classes are promised 60 % there, \"a\" (60 %), and all together may be promised 90 %. Lower minShare here to 30 or less, or lower theirs".to_owned()
        )
    );
}

#[test]
fn exactly_90_is_promised() {
    let resolved = with(&[batch("a", 1, Some(60)), batch("b", 2, Some(30))]);
    assert_eq!(served(&resolved, "b").min_share, 30);
}

#[test]
fn a_younger_promise_that_fits_is_kept_beside_one_that_does_not() {
    let resolved = with(&[
        batch("a", 1, Some(60)),
        batch("b", 2, Some(40)),
        batch("c", 3, Some(20)),
    ]);
    let shares = ["a", "b", "c"].map(|name| served(&resolved, name).min_share);
    assert_eq!(shares, [60, 0, 20]);
}

#[test]
fn interactive_promises_count_as_well() {
    let chat = class("chat", 1, json!({ "minShare": 80 }));
    let resolved = with(&[chat, batch("night", 2, Some(20))]);
    assert_eq!(served(&resolved, "night").min_share, 0);
}

#[test]
fn batch_that_asks_for_nothing_splits_what_is_left() {
    let two = with(&[batch("a", 1, None), batch("b", 2, None)]);
    assert_eq!(
        [served(&two, "a").min_share, served(&two, "b").min_share],
        [5, 5]
    );
    let little = with(&[
        batch("big", 1, Some(84)),
        batch("a", 2, None),
        batch("b", 3, None),
    ]);
    assert_eq!(
        [
            served(&little, "a").min_share,
            served(&little, "b").min_share
        ],
        [3, 3]
    );
    let nothing = with(&[batch("big", 1, Some(90)), batch("a", 2, None)]);
    assert_eq!(served(&nothing, "a").min_share, 0);
}

#[test]
fn a_promise_of_0_is_none_and_takes_no_part_in_the_split() {
    let resolved = with(&[batch("a", 1, Some(0)), batch("b", 2, None)]);
    assert_eq!(served(&resolved, "a").min_share, 0);
    assert_eq!(served(&resolved, "b").min_share, 5);
}

#[test]
fn nobody_is_given_more_than_it_may_hold() {
    let small = class("small", 1, json!({ "tier": "Batch", "maxShare": 2 }));
    assert_eq!(served(&with(&[small]), "small").min_share, 2);
}

#[test]
fn promises_count_for_each_pool_by_itself() {
    let both = json!([{ "name": "llama" }, { "name": "qwen" }]);
    let only = |pool: &str| json!([{ "name": pool }]);
    let of = |name: &str, age, pools| {
        class(
            name,
            age,
            json!({ "tier": "Batch", "minShare": 50, "poolRefs": pools }),
        )
    };
    let resolved = resolved(
        &[pool("llama", 1, json!({})), pool("qwen", 1, json!({}))],
        &[of("a", 1, only("llama")), of("b", 2, both)],
    );
    assert_eq!(served(&resolved, "b").min_share, 0);
    let qwen = resolved
        .pools
        .iter()
        .find(|pool| pool.key.name == "qwen")
        .unwrap();
    assert_eq!(
        qwen.policy.as_ref().unwrap().class("b").unwrap().min_share,
        50
    );
    let (_, reason, message) = said(class_in(&resolved, "b").condition("Accepted"));
    assert_eq!(reason, "MinShareOverPromised");
    assert!(
        message.contains("\"llama\"") && !message.contains("qwen"),
        "{message}"
    );
}
