use super::*;
use crate::{
    fleet::Nack,
    world::{Change, Delta, Owner, Pod, World},
};
use fairtide_api::conditions::{CONFLICTED, INJECTED};
use fairtide_resolve::parse_manifests;
use tokio::time::Instant;

const MANIFESTS: &str = r"
apiVersion: traffic.fairtide.dev/v1alpha1
kind: InferencePool
metadata: {name: llama, namespace: chat}
spec:
  selector: {matchLabels: {app: vllm}}
  targetPorts: [{number: 8000}]
---
apiVersion: traffic.fairtide.dev/v1alpha1
kind: TrafficClass
metadata: {name: chat, namespace: chat}
spec: {poolRefs: [{name: llama}], tier: Interactive}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: chat, labels: {app: vllm}}}
- {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: chat, labels: {app: vllm}}}
- {apiVersion: v1, kind: Pod, metadata: {name: c, namespace: chat, labels: {app: vllm}}}
";

struct Scene {
    world: World,
    progress: BTreeMap<String, Progress>,
}

impl Scene {
    fn of(manifests: &str) -> Self {
        let manifests = parse_manifests("m.yaml", manifests);
        assert!(manifests.errors.is_empty(), "{:?}", manifests.errors);
        let mut world = World::default();
        let pods = manifests.pods().map(|meta| Pod {
            meta: meta.clone(),
            uid: None,
            injected: false,
            owner: None,
            leaving: false,
        });
        world.apply(Change::Pods(Delta::Replace(pods.collect())));
        let classes = manifests.classes().cloned().map(Ok);
        world.apply(Change::Classes(Delta::Replace(classes.collect())));
        let pools = manifests.pools().cloned().map(Ok);
        world.apply(Change::Pools(Delta::Replace(pools.collect())));
        world.settle(Instant::now());
        Self {
            world,
            progress: BTreeMap::new(),
        }
    }

    fn version(&self) -> String {
        let namespace = self.world.namespace("chat").unwrap();
        namespace.push("llama").unwrap().version.clone()
    }

    fn pod(mut self, name: &str, acked: Option<&str>, refused: Option<&str>) -> Self {
        let present = self.version();
        let progress = Progress {
            connected: true,
            acked: acked.map(|version| match version {
                "present" => present.as_str().into(),
                other => other.into(),
            }),
            nacked: refused.map(|reason| Nack {
                version: present.as_str().into(),
                reason: reason.into(),
            }),
            ..Progress::default()
        };
        self.progress.insert(name.to_owned(), progress);
        self
    }

    fn assess(&self) -> Vec<Assessment> {
        let namespace = self.world.namespace("chat").unwrap();
        assess("chat", namespace, |pod| {
            self.progress.get(&pod.name).cloned().unwrap_or_default()
        })
    }

    /// Condition of the pool, then of the class: status and reason.
    fn condition(&self, type_: &str) -> Vec<Option<(&'static str, &'static str)>> {
        let assessments = self.assess();
        assessments
            .iter()
            .map(|assessment| {
                let mut found = assessment.findings.iter().filter(|f| f.type_ == type_);
                let condition = found.next().map(|f| (f.status.as_str(), f.reason));
                assert!(found.next().is_none(), "{type_} is there twice");
                condition
            })
            .collect()
    }

    fn message(&self, type_: &str) -> String {
        let assessments = self.assess();
        let found = assessments[0].findings.iter().find(|f| f.type_ == type_);
        found.unwrap().message.clone()
    }

    fn pods(&self) -> PoolPods {
        match self.assess()[0].counts {
            Counts::Pods(Some(pods)) => pods,
            other => panic!("no pods: {other:?}"),
        }
    }
}

fn both(status: &'static str, reason: &'static str) -> Vec<Option<(&'static str, &'static str)>> {
    vec![Some((status, reason)); 2]
}

#[test]
fn without_pods_or_sidecars_it_cant_be_told() {
    let no_pods = MANIFESTS
        .split("---")
        .take(2)
        .collect::<Vec<_>>()
        .join("---");
    let scene = Scene::of(&no_pods);
    assert_eq!(scene.condition(PROGRAMMED), both("Unknown", "NoEndpoints"));
    assert_eq!(scene.condition(READY), both("Unknown", "NoEndpoints"));
    assert_eq!(scene.pods(), PoolPods::default());

    let no_sidecar = Scene::of(MANIFESTS);
    assert_eq!(
        no_sidecar.condition(PROGRAMMED),
        both("Unknown", "NoEndpoints")
    );
    assert!(no_sidecar.message(PROGRAMMED).contains("3 pods"));
    assert_eq!(no_sidecar.condition(RECONCILING), [None, None]);
    assert_eq!(no_sidecar.pods().matched, 3);
}

#[test]
fn all_connected_sidecars_in_sync_is_programmed() {
    let scene =
        Scene::of(MANIFESTS)
            .pod("a", Some("present"), None)
            .pod("b", Some("present"), None);
    assert_eq!(scene.condition(PROGRAMMED), both("True", "Programmed"));
    assert_eq!(scene.condition(READY), both("True", "Programmed"));
    assert_eq!(scene.condition(RECONCILING), [None, None]);
    assert_eq!(scene.condition(STALLED), [None, None]);
    let pods = scene.pods();
    assert_eq!((pods.matched, pods.connected, pods.in_sync), (3, 2, 2));
}

#[test]
fn sidecars_that_lag_are_named() {
    let scene = Scene::of(MANIFESTS)
        .pod("a", Some("present"), None)
        .pod("b", Some("older"), None)
        .pod("c", None, None);
    assert_eq!(
        scene.condition(READY)[0],
        Some(("False", "PartiallyProgrammed"))
    );
    assert_eq!(scene.condition(RECONCILING), both("True", "NewGeneration"));
    assert!(scene.message(PROGRAMMED).ends_with("2 pods: b, c"));

    let none = Scene::of(MANIFESTS).pod("a", Some("older"), None);
    assert_eq!(none.condition(PROGRAMMED), both("False", "Pending"));
}

#[test]
fn a_refusal_is_shown_with_its_reason_and_stalls() {
    let long = "weight is odd ".repeat(100);
    let scene = Scene::of(MANIFESTS)
        .pod("a", Some("present"), None)
        .pod("b", Some("older"), Some(&long))
        .pod("c", Some("older"), Some("no"));
    assert_eq!(scene.condition(PROGRAMMED), both("False", "Rejected"));
    assert_eq!(scene.condition(STALLED), both("True", "Rejected"));
    assert_eq!(scene.condition(RECONCILING), [None, None]);
    let message = scene.message(PROGRAMMED);
    assert!(
        message.contains("b: weight is odd") && message.contains("c: no"),
        "{message}"
    );
    assert!(message.len() < 500, "{message}");
}

#[test]
fn an_old_refusal_says_nothing_about_the_present_policy() {
    let mut scene = Scene::of(MANIFESTS).pod("a", None, Some("no"));
    let progress = scene.progress.get_mut("a").unwrap();
    progress.nacked.as_mut().unwrap().version = "older".into();
    assert_eq!(scene.condition(PROGRAMMED), both("False", "Pending"));
}

#[test]
fn pods_that_leave_are_not_counted() {
    let mut scene =
        Scene::of(MANIFESTS)
            .pod("a", Some("present"), None)
            .pod("b", Some("older"), None);
    let mut leaving = scene.world.namespace("chat").unwrap().pods["b"].clone();
    leaving.leaving = true;
    scene.world.apply(Change::Pods(Delta::Apply(leaving)));
    scene.world.settle(Instant::now());
    assert_eq!(scene.condition(READY), both("True", "Programmed"));
    assert_eq!(scene.pods().matched, 2);
}

#[test]
fn a_class_that_names_no_pool_is_not_ready_and_stalls() {
    let scene = Scene::of(&MANIFESTS.replace("name: llama}]", "name: lama}]")).pod(
        "a",
        Some("present"),
        None,
    );
    assert_eq!(scene.condition(READY)[0], Some(("True", "Programmed")));
    assert_eq!(
        scene.condition(READY)[1],
        Some(("False", "RefsNotResolved"))
    );
    assert_eq!(scene.condition(STALLED)[1], Some(("True", "PoolNotFound")));
    assert_eq!(
        scene.condition(PROGRAMMED)[1],
        Some(("Unknown", "NoEndpoints"))
    );
}

#[test]
fn bypass_shows_in_ready() {
    let bypass = MANIFESTS.replace("spec:\n  selector", "spec:\n  mode: Bypass\n  selector");
    let scene = Scene::of(&bypass).pod("a", Some("present"), None);
    assert_eq!(scene.condition(READY)[0], Some(("True", "Bypassed")));
}

#[test]
fn an_object_that_cant_be_read_says_so_under_its_new_generation() {
    let mut scene = Scene::of(MANIFESTS).pod("a", Some("present"), None);
    let mut metadata = scene.world.namespace("chat").unwrap().pools["llama"]
        .meta
        .clone();
    metadata.generation = Some(9);
    let broken = kube::core::error_boundary::InvalidObject {
        error: "unknown variant `Observe`".to_owned(),
        metadata,
    };
    scene
        .world
        .apply(Change::Pools(Delta::Apply(Err(Box::new(broken)))));
    scene.world.settle(Instant::now());
    assert_eq!(scene.condition(ACCEPTED)[0], Some(("False", "Invalid")));
    assert_eq!(scene.condition(READY)[0], Some(("False", "NotAccepted")));
    assert_eq!(
        scene.condition(PROGRAMMED)[0],
        Some(("False", "NotAccepted"))
    );
    assert_eq!(scene.assess()[0].generation, 9);
    assert!(scene.message(ACCEPTED).contains("Observe"));
}

#[test]
fn every_object_has_the_four_conditions_and_no_false_remark() {
    let scene = Scene::of(MANIFESTS).pod("a", Some("present"), None);
    for assessment in scene.assess() {
        let types: Vec<_> = assessment.findings.iter().map(|f| f.type_).collect();
        for type_ in [READY, ACCEPTED, RESOLVED_REFS, PROGRAMMED] {
            assert!(types.contains(&type_), "{types:?}");
        }
        assert!(!types.contains(&CONFLICTED), "{types:?}");
    }
}

#[test]
fn pods_without_a_sidecar_are_counted_and_the_command_that_rolls_them_is_said() {
    let mut scene = Scene::of(MANIFESTS).pod("a", Some("present"), None);
    assert_eq!(scene.condition(INJECTED)[0], Some(("False", "NotInjected")));
    assert_eq!((scene.pods().matched, scene.pods().injected), (3, 1));
    let alone = scene.message(INJECTED);
    assert!(alone.contains("2 of 3 pods have no sidecar"), "{alone}");
    assert!(alone.contains("nothing owns them: b, c"), "{alone}");

    let mut change = |name: &str, injected: bool| {
        let namespace = scene.world.namespace("chat").unwrap();
        let mut pod = namespace.pods[name].clone();
        pod.injected = injected;
        pod.owner = Some(Owner {
            kind: "Deployment".to_owned(),
            name: "vllm".to_owned(),
        });
        scene.world.apply(Change::Pods(Delta::Apply(pod)));
        scene.world.settle(Instant::now());
    };
    change("b", false);
    change("c", true);
    let owned = scene.message(INJECTED);
    assert!(owned.contains("1 of 3 pods has no sidecar"), "{owned}");
    assert!(
        owned.ends_with("roll: kubectl rollout restart deployment/vllm -n chat"),
        "{owned}"
    );
    change_all_injected(&mut scene);
    assert_eq!(scene.condition(INJECTED)[0], Some(("True", "Injected")));
}

fn change_all_injected(scene: &mut Scene) {
    for name in ["a", "b", "c"] {
        let mut pod = scene.world.namespace("chat").unwrap().pods[name].clone();
        pod.injected = true;
        scene.world.apply(Change::Pods(Delta::Apply(pod)));
    }
    scene.world.settle(Instant::now());
}

#[test]
fn sidecars_of_another_version_and_engines_that_can_be_reached_directly_are_counted() {
    let mut scene =
        Scene::of(MANIFESTS)
            .pod("a", Some("present"), None)
            .pod("b", Some("present"), None);
    let a = scene.progress.get_mut("a").unwrap();
    a.sidecar_version = Some(env!("CARGO_PKG_VERSION").into());
    a.report = Some(std::sync::Arc::new(fairtide_policy::Report {
        bypassable: Some(true),
        ..Default::default()
    }));
    scene.progress.get_mut("b").unwrap().sidecar_version = Some("0.0.1".into());
    assert_eq!((scene.pods().outdated, scene.pods().bypassable), (1, 1));
}
