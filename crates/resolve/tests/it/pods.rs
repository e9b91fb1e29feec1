//! Which pool a pod belongs to.

use crate::scene::{pool, pool_in, resolved, said};
use fairtide_resolve::{ObjectKey, PodMeta};
use serde_json::json;

fn pod(namespace: &str, name: &str, labels: &[(&str, &str)]) -> PodMeta {
    PodMeta {
        key: ObjectKey::new(namespace, name),
        labels: labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
    }
}

fn selector(labels: serde_json::Value) -> serde_json::Value {
    json!({ "selector": { "matchLabels": labels } })
}

#[test]
fn a_pod_belongs_to_the_oldest_pool_that_selects_it_and_the_other_is_told() {
    let mut resolved = resolved(
        &[
            pool("wide", 2, selector(json!({ "app": "vllm" }))),
            pool(
                "old",
                1,
                selector(json!({ "app": "vllm", "model": "llama" })),
            ),
        ],
        &[],
    );
    let pods = [
        pod("prod", "a", &[("app", "vllm"), ("model", "llama")]),
        pod("prod", "b", &[("app", "vllm"), ("model", "qwen")]),
        pod("dev", "c", &[("app", "vllm"), ("model", "llama")]),
        pod("prod", "d", &[("app", "nginx")]),
    ];
    assert_eq!(
        resolved.pool_of("prod", &pods[0].labels).unwrap().key.name,
        "old"
    );
    resolved.assign(&pods);
    assert_eq!(
        pool_in(&resolved, "old").pods,
        [ObjectKey::new("prod", "a")]
    );
    assert_eq!(
        pool_in(&resolved, "wide").pods,
        [ObjectKey::new("prod", "b")]
    );
    assert_eq!(
        said(pool_in(&resolved, "old").condition("Accepted")).1,
        "Accepted"
    );
    assert_eq!(
        said(pool_in(&resolved, "wide").condition("Accepted")),
        (
            "True",
            "PodsTaken",
            "1 of the pods that this pool selects belong to an older pool, \"old\": \"a\". Narrow spec.selector.matchLabels of one of the pools".to_owned()
        )
    );
}

#[test]
fn pools_of_one_age_go_by_name() {
    let resolved = resolved(
        &[
            pool("b", 1, selector(json!({ "app": "vllm" }))),
            pool("a", 1, selector(json!({ "app": "vllm" }))),
        ],
        &[],
    );
    let pod = pod("prod", "p", &[("app", "vllm")]);
    assert_eq!(resolved.pool_of("prod", &pod.labels).unwrap().key.name, "a");
}

#[test]
fn an_invalid_pool_keeps_its_pods_from_falling_to_another() {
    let broken = json!({ "selector": { "matchLabels": { "app": "vllm" } }, "targetPorts": [] });
    let mut resolved = resolved(
        &[
            pool("old", 1, broken),
            pool("new", 2, selector(json!({ "app": "vllm" }))),
        ],
        &[],
    );
    resolved.assign(&[pod("prod", "p", &[("app", "vllm")])]);
    assert_eq!(pool_in(&resolved, "old").pods.len(), 1);
    assert_eq!(pool_in(&resolved, "new").pods, []);
    assert_eq!(
        said(pool_in(&resolved, "old").condition("Accepted")).1,
        "Invalid"
    );
}
