//! What holds for every pod.

use super::fixtures::{self, with_defaults};
use fairtide_inject::{
    Context, Injection, Isolation, Namespace, Operation, Outcome, Pool, PoolSettings, QosClass,
    Takeover, inject, qos_class,
};
use proptest::{prelude::*, sample::select};
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

fn applied(pod: &Value, injection: &Injection) -> Value {
    let mut after = pod.clone();
    injection.patch.apply(&mut after).expect("the patch fits");
    after
}

fn sidecar(pod: &Value) -> &Value {
    let containers = pod["spec"]["initContainers"].as_array().expect("a list");
    let last = containers.last().expect("the sidecar");
    assert_eq!(last["name"], "fairtide-sidecar", "it is the last");
    last
}

/// Injecting again changes nothing, also after the API server filled in its defaults.
fn assert_stable(after: &Value, context: &Context, name: &str) {
    for again in [after, &with_defaults(after)] {
        let second = inject(again, context).unwrap_or_else(|error| panic!("{name}: {error}"));
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

// --- pods that nobody wrote

/// A pod of parts that go together in many ways.
fn pods() -> impl Strategy<Value = (Value, Context)> {
    let engine = select(vec![
        "vllm",
        "vllm-command",
        "tgi",
        "tgi-flag",
        "sglang",
        "proxy",
    ]);
    let form = select(vec!["none", "split", "joined", "variable", "twice"]);
    let port = select(vec![80u16, 3000, 8000, 8001, 9999, 28_000, 30_000, 65_535]);
    let name = select(vec![None, Some("http"), Some("h")]);
    let probe = select(vec!["none", "number", "text", "name", "tcp", "exec"]);
    let takeover = select(vec![Takeover::PortSwap, Takeover::Named, Takeover::Uds]);
    let isolation = select(vec![
        Isolation::Open,
        Isolation::NetworkPolicy,
        Isolation::Loopback,
    ]);
    let resources = select(vec!["none", "gpu", "burstable", "guaranteed"]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), 0..3usize);
    (
        (engine, form, port, name, probe),
        (takeover, isolation, resources, flags),
    )
        .prop_map(|(front, back)| {
            let (engine, form, port, name, probe) = front;
            let (takeover, isolation, resources, flags) = back;
            let (host_port, never, meshed, others) = flags;
            let mut pod = pod(engine, form, port, name, probe);
            let spec = &mut pod["spec"];
            let list = if engine == "proxy" {
                "initContainers"
            } else {
                "containers"
            };
            if host_port && !spec[list][0]["ports"].is_null() {
                spec[list][0]["ports"][0]["hostPort"] = json!(8080);
            }
            if never {
                spec["restartPolicy"] = json!("Never");
            }
            let amounts = match resources {
                "gpu" => json!({"limits": {"nvidia.com/gpu": 1}}),
                "burstable" => json!({"requests": {"cpu": "1"}}),
                "guaranteed" => json!({"limits": {"cpu": "4", "memory": "8Gi"}}),
                _ => json!({}),
            };
            for list in ["containers", "initContainers"] {
                let containers = spec[list].as_array_mut();
                for container in containers.into_iter().flatten() {
                    container["resources"] = amounts.clone();
                }
            }
            for other in 0..others {
                let container = json!({
                    "name": format!("other-{other}"),
                    "image": "other:1",
                    "ports": [{"containerPort": 28_000 + other}],
                    "resources": amounts,
                });
                spec["containers"]
                    .as_array_mut()
                    .expect("a list")
                    .push(container);
            }
            let mut context = fixtures::operator_only();
            context.pool = Some(Pool {
                namespace: "n".to_owned(),
                name: "p".to_owned(),
                settings: PoolSettings {
                    takeover: Some(takeover),
                    isolation: Some(isolation),
                    ..Default::default()
                },
                ..Default::default()
            });
            if meshed {
                let labels = [("istio-injection".to_owned(), "enabled".to_owned())];
                context.namespace = Namespace {
                    labels: labels.into_iter().collect(),
                    ..Default::default()
                };
            }
            (pod, context)
        })
}

fn pod(engine: &str, form: &str, port: u16, name: Option<&str>, probe: &str) -> Value {
    let text = port.to_string();
    let mut args: Vec<String> = match form {
        "split" => vec!["--port".to_owned(), text.clone()],
        "joined" => vec![format!("--port={text}")],
        "variable" => vec!["--port".to_owned(), "$(THE_PORT)".to_owned()],
        "twice" => vec!["--port=1".to_owned(), "--port".to_owned(), text.clone()],
        _ => vec![],
    };
    let mut env = vec![json!({"name": "THE_PORT", "value": text})];
    let (image, command) = match engine {
        "vllm" => ("vllm/vllm-openai:1", vec![]),
        "vllm-command" => ("x:1", vec!["vllm", "serve", "m"]),
        "tgi" => ("ghcr.io/huggingface/text-generation-inference:3", vec![]),
        "tgi-flag" => ("x:1", vec!["text-generation-launcher"]),
        "sglang" => ("x:1", vec!["python3", "-m", "sglang.launch_server"]),
        _ => {
            args.push("--secure-proxy=false".to_owned());
            ("x:1", vec!["/app/pd-sidecar"])
        }
    };
    if engine == "tgi" && form == "none" {
        env.push(json!({"name": "PORT", "value": text}));
    }
    let served = match (engine, form) {
        (_, "none") if engine.starts_with("vllm") || engine == "proxy" => 8000,
        ("sglang", "none") => 30_000,
        _ => port,
    };
    let mut container = json!({
        "name": "engine", "image": image, "args": args, "env": env,
        "securityContext": {"runAsUser": 1000},
        "ports": [{"containerPort": served}],
    });
    if !command.is_empty() {
        container["command"] = json!(command);
    }
    if let Some(name) = name {
        container["ports"][0]["name"] = json!(name);
    }
    let get = |port: Value| json!({"httpGet": {"path": "/health", "port": port}});
    let probe = match probe {
        "number" => Some(get(json!(served))),
        "text" => Some(get(json!(served.to_string()))),
        "name" => name.map(|name| get(json!(name))),
        "tcp" => Some(json!({"tcpSocket": {"port": served}})),
        "exec" => {
            let url = format!("http://localhost:{served}/health");
            Some(json!({"exec": {"command": ["curl", url]}}))
        }
        _ => None,
    };
    if let Some(probe) = probe {
        container["livenessProbe"] = probe.clone();
        container["readinessProbe"] = probe;
    }
    let metadata = json!({"name": "p", "labels": {"fairtide.dev/inject": "enabled"}});
    let spec = if engine == "proxy" {
        container["restartPolicy"] = json!("Always");
        let behind =
            json!({"name": "behind", "image": "vllm/vllm-openai:1", "args": ["--port", "8200"]});
        json!({"initContainers": [container], "containers": [behind]})
    } else {
        json!({"containers": [container]})
    };
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_the_parts_are_the_laws_hold((pod, context) in pods()) {
        let injection = match inject(&pod, &context) {
            Ok(injection) => injection,
            Err(refusal) => {
                prop_assert!(!refusal.to_string().is_empty());
                return Ok(());
            }
        };
        let Outcome::Injected(status) = &injection.outcome else {
            return Err(TestCaseError::fail("not injected"));
        };
        let after = applied(&pod, &injection);
        assert_stable(&after, &context, "generated");
        if qos_class(&pod) != QosClass::BestEffort {
            prop_assert_eq!(qos_class(&pod), qos_class(&after));
        }
        let mut numbers: Vec<u16> = vec![status.admin_port];
        for pair in &status.ports {
            numbers.push(pair.listen);
            numbers.extend(pair.upstream);
        }
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        prop_assert_eq!(numbers.len(), count, "a port is used twice");
        sidecar(&after);
    }

    #[test]
    fn nothing_makes_it_panic(pod in json_values(), label in any::<bool>()) {
        let mut pod = pod;
        if label && pod.get("metadata").is_none_or(Value::is_object) && pod.is_object() {
            pod["metadata"]["labels"] = json!({"fairtide.dev/inject": "enabled"});
        }
        let _ = inject(&pod, &fixtures::operator_only());
    }

    #[test]
    fn a_damaged_pod_is_refused_or_patched_well(
        (fixture, at, with) in (0..1000usize, 0..10_000usize, json_values())
    ) {
        let all = fixtures_once();
        let (context, pod) = &all[fixture % all.len()];
        let mut pod = pod.clone();
        let places = places(&pod);
        let place = &places[at % places.len()];
        *pod.pointer_mut(place).expect("it is there") = with;
        if let Ok(injection) = inject(&pod, context) {
            let mut after = pod.clone();
            prop_assert!(injection.patch.apply(&mut after).is_ok(), "{place}");
            if matches!(injection.outcome, Outcome::Injected(_)) {
                let again = inject(&after, context);
                prop_assert!(
                    again.as_ref().is_ok_and(|again| again.patch.is_empty()),
                    "{place}: {again:?}"
                );
            }
        }
    }
}

fn fixtures_once() -> &'static Vec<(Context, Value)> {
    static ALL: std::sync::OnceLock<Vec<(Context, Value)>> = std::sync::OnceLock::new();
    ALL.get_or_init(|| {
        let all = fixtures::all().into_iter();
        all.map(|fixture| (fixture.context, fixture.pod)).collect()
    })
}

fn places(value: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, places: &mut Vec<String>) {
        places.push(at.to_owned());
        match value {
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    walk(value, &format!("{at}/{index}"), places);
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    walk(value, &format!("{at}/{key}"), places);
                }
            }
            _ => {}
        }
    }
    let mut places = Vec::new();
    walk(value, "", &mut places);
    places
}

/// JSON that looks a little like a pod.
fn json_values() -> impl Strategy<Value = Value> {
    let words = select(vec![
        "",
        "vllm",
        "serve",
        "--port",
        "8000",
        "--port=8000",
        "$(X)",
        "bash",
        "-c",
        "Always",
        "enabled",
        "http",
        "localhost:8000",
        "1Gi",
        "{}",
        "fairtide-sidecar",
    ]);
    let keys = select(vec![
        "metadata",
        "labels",
        "annotations",
        "spec",
        "containers",
        "initContainers",
        "name",
        "image",
        "command",
        "args",
        "env",
        "value",
        "ports",
        "containerPort",
        "hostPort",
        "livenessProbe",
        "httpGet",
        "port",
        "exec",
        "lifecycle",
        "preStop",
        "resources",
        "limits",
        "cpu",
        "volumes",
        "securityContext",
        "runAsUser",
        "kind",
        "restartPolicy",
        "fairtide.dev/status",
        "fairtide.dev/inject",
        "fairtide.dev/takeover",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| json!(number)),
        (0..70_000i64).prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        words.prop_map(|word| json!(word)),
        ".{0,6}".prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|entries| {
                let entries = entries.into_iter();
                let entries = entries.map(|(key, value)| (key.to_owned(), value));
                Value::Object(entries.collect())
            }),
        ]
    })
}
