use super::*;
use serde_json::{Value, json};

fn pool(name: &str, app: &str, generation: i64) -> InferencePool {
    serde_json::from_value(json!({
        "apiVersion": "traffic.fairtide.dev/v1alpha1",
        "kind": "InferencePool",
        "metadata": {
            "namespace": "chat", "name": name, "generation": generation, "uid": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "selector": { "matchLabels": { "app": app } },
            "targetPorts": [{ "number": 8000 }],
        },
    }))
    .unwrap()
}

fn class(namespace: &str, name: &str, pool: &str, weight: i32) -> TrafficClass {
    serde_json::from_value(json!({
        "apiVersion": "traffic.fairtide.dev/v1alpha1",
        "kind": "TrafficClass",
        "metadata": { "namespace": namespace, "name": name, "generation": weight, "uid": name },
        "spec": {
            "poolRefs": [{ "name": pool }], "tier": "Interactive", "weight": weight,
        },
    }))
    .unwrap()
}

fn pod(namespace: &str, name: &str, app: &str) -> Pod {
    let metadata: Value = json!({
        "namespace": namespace, "name": name, "uid": format!("uid-{name}"),
        "labels": { "app": app },
    });
    Pod::of(&serde_json::from_value(metadata).unwrap())
}

fn broken(name: &str, error: &str) -> Box<InvalidObject> {
    Box::new(InvalidObject {
        error: error.to_owned(),
        metadata: pool(name, "", 2).metadata,
    })
}

fn apply_pool(world: &mut World, pool: InferencePool) {
    world.apply(Change::Pools(Delta::Apply(Ok(pool))));
}

fn apply_class(world: &mut World, class: TrafficClass) {
    world.apply(Change::Classes(Delta::Apply(Ok(class))));
}

fn apply_pod(world: &mut World, pod: Pod) {
    world.apply(Change::Pods(Delta::Apply(pod)));
}

/// A world in which every kind has been listed, and is empty.
fn listed() -> World {
    let mut world = World::default();
    world.apply(Change::Pools(Delta::Replace(Vec::new())));
    world.apply(Change::Classes(Delta::Replace(Vec::new())));
    world.apply(Change::Pods(Delta::Replace(Vec::new())));
    world
}

/// The version that each pod of a namespace should have.
fn versions(world: &World, namespace: &str) -> BTreeMap<String, Option<String>> {
    let namespace = world.namespace(namespace).expect("something is in it");
    namespace
        .assigned()
        .map(|(pod, push)| {
            let version = push.map(|push| push.version.clone());
            (pod.meta.key.name.clone(), version)
        })
        .collect()
}

fn settle(world: &mut World) -> Vec<String> {
    world.settle(Instant::now()).namespaces
}

#[test]
fn nothing_is_worked_out_before_every_kind_was_listed() {
    let mut world = World::default();
    world.apply(Change::Pools(Delta::Replace(vec![Ok(pool(
        "p", "vllm", 1,
    ))])));
    world.apply(Change::Pods(Delta::Replace(vec![pod("chat", "a", "vllm")])));
    assert_eq!(world.settle(Instant::now()), Settled::default());
    assert!(world.namespace("chat").unwrap().resolved().is_none());
    // Half a picture would have been a policy without this class.
    let class = class("chat", "c", "p", 1);
    world.apply(Change::Classes(Delta::Replace(vec![Ok(class)])));
    assert_eq!(settle(&mut world), ["chat"]);
    let push = world.namespace("chat").unwrap().push("p").unwrap();
    assert!(String::from_utf8_lossy(&push.line).contains("\"name\":\"c\""));
    assert_eq!(versions(&world, "chat")["a"].as_ref(), Some(&push.version));
}

#[test]
fn a_change_is_worked_out_for_its_namespace_alone() {
    let mut world = listed();
    apply_pool(&mut world, pool("p", "vllm", 1));
    apply_pod(&mut world, pod("chat", "a", "vllm"));
    apply_pod(&mut world, pod("other", "b", "vllm"));
    assert_eq!(settle(&mut world), ["chat", "other"]);
    apply_class(&mut world, class("other", "c", "p", 1));
    assert_eq!(settle(&mut world), ["other"]);
    assert!(settle(&mut world).is_empty());
}

#[test]
fn what_no_policy_depends_on_changes_nothing() {
    let mut world = listed();
    apply_pool(&mut world, pool("p", "vllm", 1));
    apply_pod(&mut world, pod("chat", "a", "vllm"));
    settle(&mut world);
    let mut with_status = pool("p", "vllm", 1);
    with_status.status = Some(fairtide_api::InferencePoolStatus::default());
    with_status.metadata.resource_version = Some("7".to_owned());
    apply_pool(&mut world, with_status);
    apply_pod(&mut world, pod("chat", "a", "vllm"));
    assert!(settle(&mut world).is_empty());
    // The status itself is kept: it is what the next one is laid over.
    let held = &world.namespace("chat").unwrap().pools["p"];
    assert_eq!(held.meta.resource_version.as_deref(), Some("7"));
    assert!(held.good.as_ref().unwrap().status.is_some());
}

#[test]
fn pods_come_and_go_without_a_new_policy() {
    let mut world = listed();
    apply_pool(&mut world, pool("p", "vllm", 1));
    apply_pod(&mut world, pod("chat", "a", "vllm"));
    let begun = Instant::now();
    world.settle(begun);
    apply_pod(&mut world, pod("chat", "b", "vllm"));
    world.settle(begun + std::time::Duration::from_secs(60));
    let push = world.namespace("chat").unwrap().push("p").unwrap().clone();
    assert_eq!(push.since, begun);
    let all = versions(&world, "chat");
    assert_eq!(all["a"], all["b"]);
    world.apply(Change::Pods(Delta::Delete(ObjectKey::new("chat", "a"))));
    let settled = world.settle(begun);
    assert_eq!(settled.gone, BTreeSet::from([ObjectKey::new("chat", "a")]));
    assert_eq!(versions(&world, "chat").len(), 1);
}

#[test]
fn a_pod_that_no_pool_selects_is_known_and_has_nothing() {
    let mut world = listed();
    apply_pool(&mut world, pool("p", "vllm", 1));
    apply_pod(&mut world, pod("chat", "a", "web"));
    settle(&mut world);
    assert_eq!(versions(&world, "chat")["a"], None);
    apply_pod(&mut world, pod("chat", "a", "vllm"));
    settle(&mut world);
    assert!(versions(&world, "chat")["a"].is_some());
}

#[test]
fn a_list_replaces_what_was_missed_while_the_watch_was_broken() {
    let mut world = listed();
    apply_pool(&mut world, pool("p", "vllm", 1));
    apply_pool(&mut world, pool("q", "other", 1));
    apply_class(&mut world, class("chat", "c", "p", 1));
    apply_pod(&mut world, pod("chat", "a", "vllm"));
    apply_pod(&mut world, pod("chat", "b", "vllm"));
    settle(&mut world);
    let before = versions(&world, "chat")["a"].clone();
    world.apply(Change::Pools(Delta::Replace(vec![Ok(pool(
        "p", "vllm", 1,
    ))])));
    world.apply(Change::Classes(Delta::Replace(vec![Ok(class(
        "chat", "c", "p", 2,
    ))])));
    world.apply(Change::Pods(Delta::Replace(vec![pod("chat", "a", "vllm")])));
    let settled = world.settle(Instant::now());
    assert_eq!(settled.gone, BTreeSet::from([ObjectKey::new("chat", "b")]));
    let namespace = world.namespace("chat").unwrap();
    assert_eq!(namespace.pools.keys().collect::<Vec<_>>(), ["p"]);
    assert_ne!(versions(&world, "chat")["a"], before);
}

#[test]
fn a_pod_that_is_made_anew_before_it_was_missed_is_not_gone() {
    let mut world = listed();
    apply_pod(&mut world, pod("chat", "a", "vllm"));
    settle(&mut world);
    world.apply(Change::Pods(Delta::Delete(ObjectKey::new("chat", "a"))));
    apply_pod(&mut world, pod("chat", "a", "vllm"));
    assert!(world.settle(Instant::now()).gone.is_empty());
}

#[test]
fn an_object_that_cant_be_read_stays_in_force_as_it_was() {
    let mut world = listed();
    apply_pool(&mut world, pool("p", "vllm", 1));
    apply_pod(&mut world, pod("chat", "a", "vllm"));
    settle(&mut world);
    let before = versions(&world, "chat");
    world.apply(Change::Pools(Delta::Apply(Err(broken(
        "p",
        "unknown mode",
    )))));
    settle(&mut world);
    assert_eq!(versions(&world, "chat"), before);
    let held = &world.namespace("chat").unwrap().pools["p"];
    assert_eq!(held.broken.as_deref(), Some("unknown mode"));
    assert_eq!(held.meta.generation, Some(2));
    apply_pool(&mut world, pool("p", "vllm", 3));
    settle(&mut world);
    assert!(world.namespace("chat").unwrap().pools["p"].broken.is_none());
    assert_ne!(versions(&world, "chat"), before);
}

#[test]
fn an_object_of_the_same_name_inherits_nothing() {
    let mut world = listed();
    apply_pool(&mut world, pool("p", "vllm", 1));
    settle(&mut world);
    let mut another = broken("p", "unknown mode");
    another.metadata.uid = Some("another".to_owned());
    world.apply(Change::Pools(Delta::Apply(Err(another))));
    settle(&mut world);
    assert!(world.namespace("chat").unwrap().pools["p"].good.is_none());
    assert!(world.namespace("chat").unwrap().push("p").is_none());
}

#[test]
fn empty_namespaces_are_forgotten() {
    let mut world = listed();
    apply_pod(&mut world, pod("chat", "a", "vllm"));
    settle(&mut world);
    world.apply(Change::Pods(Delta::Delete(ObjectKey::new("chat", "a"))));
    settle(&mut world);
    assert!(world.namespace("chat").is_none());
}
