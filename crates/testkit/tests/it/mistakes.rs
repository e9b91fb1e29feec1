//! What a user gets wrong is refused by `kubectl apply`, or ends as a condition that says what to
//! write; and it never stops other objects.

use crate::scene::{apply, class, pool, refused};
use fairtide_testkit::Installation;

async fn namespace(name: &str) -> &'static Installation {
    let fairtide = Installation::shared().await.unwrap();
    fairtide.api.create_namespace(name).await.unwrap();
    fairtide
}

/// Waits for a condition `TYPE=STATUS (REASON)` and gives its message.
async fn condition(namespace: &str, object: &str, condition: [&str; 3]) -> String {
    let fairtide = Installation::shared().await.unwrap();
    fairtide
        .condition(namespace, object, condition)
        .await
        .unwrap()
}

#[tokio::test]
async fn weight_below_one_is_refused_at_the_door() {
    let fairtide = namespace("weight").await;
    let said = refused(fairtide, "weight", &class("jobs", "Batch", "weight: -1")).await;
    assert!(said.contains("spec.weight"), "{said}");
    assert!(said.contains("greater than or equal to 1"), "{said}");
}

#[tokio::test]
async fn unknown_field_is_refused_by_kubectl_and_named() {
    let fairtide = namespace("unknown").await;
    let said = refused(fairtide, "unknown", &class("jobs", "Batch", "wieght: 2")).await;
    assert!(said.contains("unknown field \"spec.wieght\""), "{said}");
}

#[tokio::test]
async fn class_that_names_no_pool_says_so() {
    let fairtide = namespace("no-pool").await;
    apply(fairtide, "no-pool", &class("jobs", "Batch", "")).await;
    let refs = ["ResolvedRefs", "False", "PoolNotFound"];
    let said = condition("no-pool", "ftclass/jobs", refs).await;
    assert!(said.contains("llama"), "{said}");
    let ready = ["Ready", "False", "RefsNotResolved"];
    condition("no-pool", "ftclass/jobs", ready).await;

    apply(fairtide, "no-pool", &pool("llama", 1)).await;
    let refs = ["ResolvedRefs", "True", "ResolvedRefs"];
    condition("no-pool", "ftclass/jobs", refs).await;
}

#[tokio::test]
async fn promises_above_ninety_percent_cost_the_newest_class_its_own() {
    let fairtide = namespace("shares").await;
    // Created in one second, so that the names decide which is the newer.
    let first = class("a-first", "Batch", "minShare: 60");
    let second = class("b-second", "Batch", "minShare: 40");
    apply(fairtide, "shares", &(pool("llama", 1) + &first + &second)).await;
    let taken_back = ["Accepted", "True", "MinShareOverPromised"];
    let said = condition("shares", "ftclass/b-second", taken_back).await;
    assert!(said.contains("90"), "{said}");
    let kept = ["Accepted", "True", "Accepted"];
    condition("shares", "ftclass/a-first", kept).await;
}

#[tokio::test]
async fn classes_that_take_the_same_requests_are_told() {
    let fairtide = namespace("overlap").await;
    let twin = class("b-twin", "Batch", "").replace("value: b-twin", "value: a-jobs");
    let objects = pool("llama", 1) + &class("a-jobs", "Batch", "") + &twin;
    apply(fairtide, "overlap", &objects).await;
    let conflict = ["Conflicted", "True", "MatchOverlap"];
    let said = condition("overlap", "ftclass/b-twin", conflict).await;
    assert!(said.contains("a-jobs"), "{said}");
    let unharmed = ["Accepted", "True", "Accepted"];
    condition("overlap", "ftclass/a-jobs", unharmed).await;
}

#[tokio::test]
async fn pool_without_pods_is_not_known_to_be_programmed() {
    let fairtide = namespace("empty").await;
    apply(fairtide, "empty", &pool("llama", 1)).await;
    let programmed = ["Programmed", "Unknown", "NoEndpoints"];
    condition("empty", "ftpool/llama", programmed).await;
}
