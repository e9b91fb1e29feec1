//! Service meshes: their proxy takes all traffic into the pod, the kubelet's included.
//!
//! The sidecar's traffic ports stay in the mesh. Its admin port is taken out of it, since the
//! kubelet speaks plain HTTP. A mesh that comes after us reads an annotation for that; to one that
//! was there before, it comes too late, and only a warning is left.
//!
//! A startup probe would be worse than useless: where the mesh's proxy is an app container, it
//! starts only after all init containers, and the kubelet's probe of one of those goes through
//! that proxy. Both would wait for ever.
//!
//! Where Istio was first, it has taken the engine's probes over: the kubelet asks Istio's agent,
//! which asks the port that stands in a variable of its container. That port follows as well.

use crate::{
    context::Context,
    edit::Edit,
    pod::{Container, Pod},
    refusal::Refusal,
    status::Status,
    warning::Warning,
};
use serde_json::{Value, json};

/// A mesh.
#[derive(Debug)]
struct Mesh {
    name: &'static str,
    /// Its proxy's container.
    container: &'static str,
    /// Its annotation with the ports that its proxy leaves alone.
    excluded: &'static str,
    /// Labels or annotations of the pod or namespace that ask for it.
    asks: &'static [(&'static str, Option<&'static str>)],
    forbids: &'static [(&'static str, &'static str)],
}

const MESHES: &[Mesh] = &[
    Mesh {
        name: "Istio",
        container: "istio-proxy",
        excluded: "traffic.sidecar.istio.io/excludeInboundPorts",
        asks: &[
            ("istio-injection", Some("enabled")),
            ("sidecar.istio.io/inject", Some("true")),
            ("istio.io/rev", None),
        ],
        forbids: &[
            ("sidecar.istio.io/inject", "false"),
            ("istio.io/dataplane-mode", "ambient"),
        ],
    },
    Mesh {
        name: "Linkerd",
        container: "linkerd-proxy",
        excluded: "config.linkerd.io/skip-inbound-ports",
        asks: &[
            ("linkerd.io/inject", Some("enabled")),
            ("linkerd.io/inject", Some("ingress")),
        ],
        forbids: &[("linkerd.io/inject", "disabled")],
    },
];

/// Whether a mesh's proxy is in the pod, or will be.
pub(crate) fn expected(pod: Pod<'_>, context: &Context) -> bool {
    let mut meshes = MESHES.iter();
    meshes.any(|mesh| mesh.is_there(pod) || mesh.will_come(pod, context))
}

/// Takes the admin port out of the mesh.
pub(crate) fn exclude(
    edit: &mut Edit,
    pod: Pod<'_>,
    context: &Context,
    port: u16,
    warnings: &mut Vec<Warning>,
) {
    for mesh in MESHES {
        let there = mesh.is_there(pod);
        if !there && !mesh.will_come(pod, context) {
            continue;
        }
        let old = pod.annotation(mesh.excluded).unwrap_or_default();
        let number = port.to_string();
        let mut parts = old.split(',').map(str::trim);
        if parts.any(|part| part == number || part == "*") {
            continue;
        }
        if there {
            warnings.push(Warning::MeshFirst {
                mesh: mesh.name,
                port,
                key: mesh.excluded,
            });
            continue;
        }
        let new = match old.trim() {
            "" => number,
            old => format!("{old},{number}"),
        };
        edit.set_key("/metadata/annotations", mesh.excluded, Value::String(new));
    }
}

const ISTIO_PROBERS: &str = "ISTIO_KUBE_APP_PROBERS";

/// Lets probes that Istio took over follow the engine.
pub(crate) fn follow_probers(
    edit: &mut Edit,
    pod: Pod<'_>,
    target: Container<'_>,
    status: &Status,
) -> Result<(), Refusal> {
    let Some(proxy) = pod.container("istio-proxy") else {
        return Ok(());
    };
    for (index, variable) in proxy.array("env").enumerate() {
        if variable.get("name").and_then(Value::as_str) != Some(ISTIO_PROBERS) {
            continue;
        }
        let text = variable.get("value").and_then(Value::as_str);
        let probers = text.and_then(|text| serde_json::from_str(text).ok());
        let Some(mut probers @ Value::Object(_)) = probers else {
            continue;
        };
        if !move_probers(&mut probers, target.name(), status) {
            continue;
        }
        if !status.kubelet_reaches_engine() {
            let container = target.name().to_owned();
            return Err(Refusal::MeshProbes { container });
        }
        let path = format!("{}/env/{index}/value", proxy.path());
        edit.set(&path, Value::String(probers.to_string()));
    }
    Ok(())
}

/// Changes the ports of one container's probers; says whether there was one to change.
fn move_probers(probers: &mut Value, container: &str, status: &Status) -> bool {
    let of_container = format!("/app-health/{container}/");
    let mut moved = false;
    for (key, prober) in probers.as_object_mut().into_iter().flatten() {
        if !key.starts_with(&of_container) {
            continue;
        }
        for action in ["httpGet", "tcpSocket", "grpc"] {
            let port = prober.get_mut(action).and_then(|it| it.get_mut("port"));
            let Some(port) = port else {
                continue;
            };
            let number = port.as_u64().and_then(|port| u16::try_from(port).ok());
            let pair = number.and_then(|number| status.by_listen(number));
            if let Some(pair) = pair {
                moved = true;
                if let Some(upstream) = pair.upstream {
                    *port = json!(upstream);
                }
            }
        }
    }
    moved
}

// === impl Mesh ===

impl Mesh {
    fn is_there(&self, pod: Pod<'_>) -> bool {
        pod.container(self.container).is_some()
    }

    fn will_come(&self, pod: Pod<'_>, context: &Context) -> bool {
        let namespace = &context.namespace;
        let values = |key: &str| {
            let by_namespace = [&namespace.labels, &namespace.annotations];
            let by_namespace = by_namespace.map(|map| map.get(key).map(String::as_str));
            let by_pod = [pod.label(key), pod.annotation(key)];
            by_pod.into_iter().chain(by_namespace).flatten()
        };
        let forbidden = |(key, value): &(&str, &str)| values(key).any(|found| found == *value);
        let asked = |(key, value): &(&str, Option<&str>)| {
            values(key).any(|found| value.is_none_or(|value| found == value))
        };
        !self.forbids.iter().any(forbidden) && self.asks.iter().any(asked)
    }
}
