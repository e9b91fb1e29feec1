//! Pods that nobody wrote, of parts that go together in many ways.

use super::{
    fixtures,
    laws::{applied, assert_stable, sidecar},
};
use fairtide_inject::{
    Context, Isolation, Namespace, Outcome, Pool, PoolSettings, QosClass, Takeover, inject,
    qos_class,
};
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

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
}
