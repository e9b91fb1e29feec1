//! Service meshes: their proxy takes all traffic into the pod, the kubelet's included.
//!
//! The sidecar's traffic ports stay in the mesh. Its admin port is taken out of it, since the
//! kubelet speaks plain HTTP. A mesh that comes after us reads an annotation for that; to one that
//! was there before, it comes too late, and only a warning is left.
//!
//! A startup probe would be worse than useless: where the mesh's proxy is an app container, it
//! starts only after all init containers, and the kubelet's probe of one of those goes through
//! that proxy. Both would wait for ever.

use crate::{context::Context, edit::Edit, pod::Pod, warning::Warning};
use serde_json::Value;

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
