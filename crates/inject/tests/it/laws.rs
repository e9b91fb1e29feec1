//! What holds for every pod.

use super::fixtures::{self, with_defaults};
use fairtide_inject::{Context, Injection, Operation, Outcome, QosClass, inject, qos_class};
use serde_json::{Map, Value, json};

/// Every fixture that gets the sidecar, and what it becomes.
fn injected() -> Vec<(String, Context, Value, Injection, Value)> {
    let mut injected = Vec::new();
    for fixture in fixtures::all() {
        let Ok(injection) = inject(&fixture.pod, &fixture.context) else {
            continue;
        };
        if let Outcome::Injected(_) = injection.outcome {
            let after = applied(&fixture.pod, &injection);
            injected.push((fixture.name, fixture.context, fixture.pod, injection, after));
        }
    }
    assert!(injected.len() > 40, "only {}", injected.len());
    injected
}

pub fn applied(pod: &Value, injection: &Injection) -> Value {
    let mut after = pod.clone();
    injection.patch.apply(&mut after).expect("the patch fits");
    after
}

pub fn sidecar(pod: &Value) -> &Value {
    let containers = pod["spec"]["initContainers"].as_array().expect("a list");
    let last = containers.last().expect("the sidecar");
    assert_eq!(last["name"], "fairtide-sidecar", "it is the last");
    last
}

/// Injecting again changes nothing, also after the API server filled in its defaults.
pub fn assert_stable(after: &Value, context: &Context, name: &str) {
    for again in [after, &with_defaults(after)] {
        let second = inject(again, context).expect(name);
        assert!(matches!(second.outcome, Outcome::Kept(_)), "{name}");
        assert!(second.patch.is_empty(), "{name}: {:?}", second.patch);
    }
}

#[test]
fn injecting_twice_changes_nothing() {
    for (name, context, _, _, after) in injected() {
        assert_stable(&after, &context, &name);
    }
}

#[test]
fn defaults_filled_in_before_make_no_difference() {
    for (name, context, pod, _, after) in injected() {
        let defaulted = with_defaults(&pod);
        let injection = inject(&defaulted, &context).expect(&name);
        let expected = with_defaults(&after);
        assert_eq!(
            with_defaults(&applied(&defaulted, &injection)),
            expected,
            "{name}"
        );
    }
}

#[test]
fn a_patch_touches_only_what_it_must() {
    let allowed = [
        "/metadata/labels",
        "/metadata/annotations",
        "/spec/terminationGracePeriodSeconds",
        "/spec/volumes",
        "/spec/securityContext",
        "/spec/initContainers/-",
    ];
    let of_containers = [
        "args",
        "command",
        "env",
        "ports",
        "startupProbe",
        "livenessProbe",
        "readinessProbe",
        "lifecycle",
        "volumeMounts",
    ];
    for (name, _, pod, injection, _) in injected() {
        for operation in &injection.patch.0 {
            let path = operation.path();
            let parts: Vec<&str> = path.split('/').collect();
            let container = ["containers", "initContainers"].contains(&parts[2])
                && parts.len() > 4
                && of_containers.contains(&parts[4]);
            let adds_init = path == "/spec/initContainers" && pod["spec"][parts[2]].is_null();
            let general = allowed
                .iter()
                .any(|at| path == *at || path.starts_with(&format!("{at}/")));
            assert!(general || container || adds_init, "{name}: {path}");
            if let Operation::Replace { path, value } = operation {
                assert!(!value.is_array(), "{name}: replaces the list {path}");
            }
        }
    }
}

#[test]
fn fields_that_nobody_knows_survive() {
    for (name, context, pod, _, after) in injected() {
        let mut strange = pod.clone();
        decorate(&mut strange);
        let injection = inject(&strange, &context).expect(&name);
        let mut after_strange = applied(&strange, &injection);
        let kept = count(&after_strange);
        strip(&mut after_strange);
        assert_eq!(after_strange, after, "{name}");
        // What is replaced takes its own along: a port that became a socket, a variable's source,
        // and what a probe asked of the engine, once the sidecar is asked in its place.
        let asked = after.to_string().matches("\"/engine/").count();
        let replaced = match name.as_str() {
            "vllm-uds" => 1,
            "tgi-configmap-port" => 2,
            _ => 0,
        };
        let gone = replaced + asked;
        assert_eq!(kept + gone, count(&strange), "{name}");
    }
}

/// Maps from names to values, in which a new key would mean something.
const PLAIN_MAPS: &[&str] = &["labels", "annotations", "requests", "limits"];
const STRANGE: &str = "fieldOfTheFuture";

fn decorate(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(decorate),
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                if !PLAIN_MAPS.contains(&key.as_str()) {
                    decorate(value);
                }
            }
            map.insert(STRANGE.to_owned(), json!({ "deep": [1, null] }));
        }
        _ => {}
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(strip),
        Value::Object(map) => {
            map.remove(STRANGE);
            map.values_mut().for_each(strip);
        }
        _ => {}
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(map) => {
            let here = usize::from(map.contains_key(STRANGE));
            here + map.values().map(count).sum::<usize>()
        }
        _ => 0,
    }
}

#[test]
fn the_quality_of_service_class_stays() {
    for (name, _, pod, _, after) in injected() {
        let (before, after) = (qos_class(&pod), qos_class(&after));
        if before == QosClass::BestEffort {
            assert_eq!(after, QosClass::Burstable, "{name}");
        } else {
            assert_eq!(after, before, "{name}");
        }
    }
}

#[test]
fn the_sidecar_passes_pod_security_restricted() {
    for (name, _, _, _, after) in injected() {
        let sidecar = sidecar(&after);
        let context = &sidecar["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false, "{name}");
        assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}), "{name}");
        assert_eq!(context["runAsNonRoot"], true, "{name}");
        assert_eq!(
            context["seccompProfile"]["type"], "RuntimeDefault",
            "{name}"
        );
        let pods = &after["spec"]["securityContext"]["runAsUser"];
        let user = if context["runAsUser"].is_null() {
            pods
        } else {
            &context["runAsUser"]
        };
        assert_ne!(user, &json!(0), "{name}: root");
        for handler in handlers(sidecar) {
            assert!(handler["httpGet"]["host"].is_null(), "{name}: a host");
            assert_ne!(handler["httpGet"]["scheme"], "HTTPS", "{name}");
        }
        let volumes = after["spec"]["volumes"].as_array().expect("volumes");
        for volume in volumes {
            if volume["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("fairtide-"))
            {
                let kinds: Vec<&String> = volume.as_object().expect("a map").keys().collect();
                assert!(
                    kinds
                        .iter()
                        .any(|kind| ["emptyDir", "projected"].contains(&kind.as_str())),
                    "{name}: {kinds:?}"
                );
            }
        }
    }
}

#[test]
fn autoscalers_find_a_request_in_every_container_of_ours() {
    for (name, _, pod, _, after) in injected() {
        let requests = &sidecar(&after)["resources"]["requests"];
        let by_pod = !pod["spec"]["resources"].is_null();
        let both = requests["cpu"].is_string() && requests["memory"].is_string();
        assert!(both || by_pod, "{name}: {requests}");
    }
}

#[test]
fn no_probe_of_an_engine_ends_at_the_sidecars_traffic_port() {
    for (name, _, _, injection, after) in injected() {
        let Outcome::Injected(status) = &injection.outcome else {
            panic!("{name}");
        };
        for list in ["containers", "initContainers"] {
            let containers = after["spec"][list].as_array();
            let target = containers.into_iter().flatten();
            for container in target.filter(|it| it["name"] == status.container.as_str()) {
                for handler in handlers(container) {
                    let port = ["httpGet", "tcpSocket", "grpc"]
                        .iter()
                        .find_map(|action| handler[*action].get("port"));
                    let taken = status
                        .ports
                        .iter()
                        .any(|pair| port == Some(&json!(pair.listen)));
                    assert!(!taken, "{name}: {handler}");
                    // No name means the sidecar's port either: it isn't in this container.
                    let names = status.ports.iter().filter_map(|pair| pair.name.as_deref());
                    for moved in names {
                        assert_ne!(port, Some(&json!(moved)), "{name}");
                    }
                }
            }
        }
    }
}

fn handlers(container: &Value) -> Vec<&Value> {
    let mut handlers: Vec<&Value> = ["startupProbe", "livenessProbe", "readinessProbe"]
        .iter()
        .filter_map(|probe| container.get(*probe))
        .collect();
    let hooks = container.get("lifecycle").and_then(Value::as_object);
    handlers.extend(hooks.into_iter().flat_map(Map::values));
    handlers
}
