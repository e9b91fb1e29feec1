//! A pod that was injected and comes again: after other webhooks, or as a copy.

use super::fixtures;
use fairtide_inject::{Context, Outcome, Pool, Refusal, inject};
use fairtide_policy::Bootstrap;
use serde_json::{Value, json};

struct Injected {
    context: Context,
    pod: Value,
}

impl Injected {
    fn of(name: &str) -> Self {
        let fixture = fixtures::one(name);
        let injection = inject(&fixture.pod, &fixture.context).expect(name);
        let mut pod = fixture.pod;
        injection.patch.apply(&mut pod).expect("the patch fits");
        Self {
            context: fixture.context,
            pod,
        }
    }

    fn sidecar(&mut self) -> &mut Value {
        let containers = self.pod["spec"]["initContainers"].as_array_mut();
        containers.expect("a list").last_mut().expect("the sidecar")
    }

    fn engine(&mut self) -> &mut Value {
        &mut self.pod["spec"]["containers"][0]
    }

    /// The pod after another injection.
    fn again(&self) -> Value {
        let injection = inject(&self.pod, &self.context).expect("it stays injected");
        assert!(matches!(injection.outcome, Outcome::Kept(_)));
        let mut pod = self.pod.clone();
        injection.patch.apply(&mut pod).expect("the patch fits");
        pod
    }

    fn refusal(&self) -> Refusal {
        inject(&self.pod, &self.context).expect_err("a refusal")
    }
}

fn stale(refusal: &Refusal, why: &str) {
    let stale = matches!(refusal, Refusal::StaleStatus { why: found } if found.contains(why));
    assert!(stale, "{refusal}");
}

#[test]
fn a_restart_policy_that_an_old_webhook_stripped_comes_back() {
    let whole = Injected::of("vllm-port-joined");
    let mut stripped = Injected::of("vllm-port-joined");
    let sidecar = stripped.sidecar().as_object_mut().expect("a map");
    sidecar.remove("restartPolicy");
    assert_eq!(stripped.again(), whole.pod);
}

#[test]
fn changes_of_other_webhooks_stay() {
    let mut pod = Injected::of("vllm-port-joined");
    // A registry mirror, LeaderWorkerSet's variables, Istio's probes and container.
    pod.sidecar()["image"] = json!("mirror.corp/fairtide-sidecar@sha256:1f7d");
    let env = pod.sidecar()["env"].as_array_mut().expect("a list");
    env.insert(0, json!({"name": "LWS_LEADER_ADDRESS", "value": "vllm-0"}));
    let rewritten = json!({"httpGet": {"path": "/app-health/engine/readyz", "port": 15020}});
    pod.engine()["readinessProbe"] = rewritten.clone();
    pod.sidecar()["readinessProbe"] = rewritten;
    let containers = pod.pod["spec"]["containers"].as_array_mut();
    let proxy = json!({"name": "istio-proxy", "image": "istio/proxyv2"});
    containers.expect("a list").push(proxy);
    assert_eq!(pod.again(), pod.pod);
}

#[test]
fn an_engine_that_was_moved_back_is_moved_again() {
    let whole = Injected::of("vllm-port-joined");
    let mut back = Injected::of("vllm-port-joined");
    back.engine()["args"][1] = json!("--port=8080");
    back.engine()["livenessProbe"]["httpGet"]["port"] = json!(8080);
    assert_eq!(back.again(), whole.pod);
}

#[test]
fn a_sidecar_that_was_taken_out_comes_back() {
    let whole = Injected::of("vllm-host-port");
    let mut without = Injected::of("vllm-host-port");
    let spec = without.pod["spec"].as_object_mut().expect("a map");
    spec.remove("initContainers");
    let mut again = without.again();
    assert_eq!(
        again["spec"]["initContainers"][0]["ports"],
        whole.pod["spec"]["initContainers"][0]["ports"],
        "with the engine's names and node ports"
    );
    again["spec"]["initContainers"] = whole.pod["spec"]["initContainers"].clone();
    assert_eq!(again, whole.pod);
}

#[test]
fn a_copy_gets_the_newest_channel_and_pool_and_keeps_its_checks() {
    // Loopback: what to check can't be read from the probes any more.
    let mut copy = Injected::of("vllm-isolation-loopback");
    let before = bootstrap(&copy.pod);
    copy.context.operator.channel_ca_pem = "another\n".to_owned();
    copy.context.pool = Some(Pool {
        namespace: "chat".to_owned(),
        name: "newer".to_owned(),
        ..Default::default()
    });
    let after = bootstrap(&copy.again());
    assert_eq!(after.channel.ca_pem, "another\n");
    assert_eq!(after.pool.expect("a pool").name, "newer");
    assert_eq!(after.checks, before.checks);
    assert_eq!(after.listeners, before.listeners);
}

#[test]
fn a_copy_that_no_longer_fits_is_refused() {
    let changed = |change: &dyn Fn(&mut Injected)| {
        let mut pod = Injected::of("vllm-port-joined");
        change(&mut pod);
        pod.refusal()
    };
    let status = "fairtide.dev/status";
    let annotate = |key: &'static str, value: &'static str| {
        move |pod: &mut Injected| pod.pod["metadata"]["annotations"][key] = json!(value)
    };
    stale(
        &changed(&|pod| pod.engine()["name"] = json!("x")),
        "no container engine",
    );
    stale(
        &changed(&|pod| pod.engine()["args"][1] = json!("--port=9000")),
        "another port",
    );
    stale(
        &changed(&|pod| pod.engine()["command"] = json!(["bash", "-c", "vllm serve x"])),
        "something else",
    );
    stale(
        &changed(&annotate("fairtide.dev/takeover", "Named")),
        "takeover PortSwap",
    );
    stale(
        &changed(&annotate("fairtide.dev/isolation", "Loopback")),
        "isolation Open",
    );
    stale(&changed(&annotate(status, "{}")), "can't be read");
    let newer = r#"{"v":9,"version":"9","takeover":"PortSwap","isolation":"Open","container":"engine","ports":[],"adminPort":1}"#;
    stale(&changed(&annotate(status, newer)), "version 9");
    stale(
        &changed(&|pod| {
            let sidecar = pod.sidecar().clone();
            pod.pod["spec"]["initContainers"] = json!([]);
            let containers = pod.pod["spec"]["containers"].as_array_mut();
            containers.expect("a list").push(sidecar);
        }),
        "no init container",
    );
}

#[test]
fn a_patch_is_small() {
    for (name, most) in [
        ("vllm-image-args", 6_000),
        ("vllm-data-parallel-ports", 9_000),
    ] {
        let fixture = fixtures::one(name);
        let injection = inject(&fixture.pod, &fixture.context).expect(name);
        let bytes = serde_json::to_vec(&injection.patch).expect("data").len();
        assert!(bytes < most, "{name}: {bytes} bytes");
    }
}

#[test]
fn a_policy_comes_through_the_kubelets_expansion_unchanged() {
    let pod = Injected::of("pool-settings");
    let policy = bootstrap(&pod.pod).policy.expect("a policy");
    let path = &policy["classes"][0]["matches"][0]["path"]["value"];
    assert_eq!(path, "/$(FAIRTIDE_POD)");
}

/// What the sidecar reads, after the kubelet filled in references.
fn bootstrap(pod: &Value) -> Bootstrap {
    let containers = pod["spec"]["initContainers"].as_array().expect("a list");
    let env = containers.last().expect("the sidecar")["env"].as_array();
    let ours = env
        .expect("a list")
        .iter()
        .find(|variable| variable["name"] == "FAIRTIDE_BOOTSTRAP");
    let text = ours.expect("the variable")["value"]
        .as_str()
        .expect("a text");
    // No reference is left: each `$` is a pair, which the kubelet makes one of.
    assert_eq!(text.matches('$').count(), 2 * text.matches("$$").count());
    serde_json::from_str(&text.replace("$$", "$")).expect("a bootstrap")
}
