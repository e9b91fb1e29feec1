//! The end of the pod.
//!
//! The kubelet tells app containers to stop at once and sidecars only after they have stopped, so
//! an engine would cut off its streams while the sidecar still stands. A hook on the engine's
//! container holds it back until the sidecar says that the pod is drained. The hook is plain HTTP:
//! the kubelet doesn't do TLS in hooks reliably. On the node's network it calls the wrong address,
//! so there is none.

use crate::{edit::Edit, names, pod::Pod, status::Status, warning::Warning};
use fairtide_policy::bootstrap::Drain;
use serde_json::{Value, json};

/// A deleted pod is still routed to for a while.
const LAME_DUCK_SECONDS: u32 = 15;
/// An engine needs a moment to stop.
const ENGINE_STOP_SECONDS: u32 = 10;
/// What the pod gets beyond the time for its requests: both of the above, and some air.
const MARGIN_SECONDS: u32 = 30;

/// Knative's own hook does what ours would: it waits for the traffic to end.
const KNATIVE_PATH: &str = "/wait-for-drain";

/// Raises the grace period if it is too short; says how it is to be spent.
pub(crate) fn grace(edit: &mut Edit, pod: Pod<'_>, drain_seconds: u32) -> Drain {
    let wanted = drain_seconds.saturating_add(MARGIN_SECONDS);
    let given = u32::try_from(pod.grace_seconds()).unwrap_or(0);
    if given < wanted {
        edit.set("/spec/terminationGracePeriodSeconds", json!(wanted));
    }
    Drain {
        grace_seconds: given.max(wanted),
        lame_duck_seconds: LAME_DUCK_SECONDS,
        engine_stop_seconds: ENGINE_STOP_SECONDS,
    }
}

/// Holds the engine's containers back at the end.
pub(crate) fn hold_back(
    edit: &mut Edit,
    pod: Pod<'_>,
    status: &Status,
    warnings: &mut Vec<Warning>,
) {
    if pod.host_network() {
        warnings.push(Warning::NoDrainHook);
        return;
    }
    for name in &status.engine_containers {
        let Some(container) = pod.container(name) else {
            continue;
        };
        let mut hooks = container.hooks().filter(|(_, hook, _)| *hook == "preStop");
        if let Some((_, _, hook)) = hooks.next() {
            let get = hook.get("httpGet");
            let path = get.and_then(|get| get.get("path")).and_then(Value::as_str);
            if !matches!(path, Some(names::DRAIN_PATH | KNATIVE_PATH)) {
                let container = name.clone();
                warnings.push(Warning::OwnPreStop { container });
            }
            continue;
        }
        let get = json!({
            "path": names::DRAIN_PATH,
            "port": status.admin_port,
            "scheme": "HTTP",
        });
        let lifecycle = format!("{}/lifecycle", container.path());
        edit.set_key(&lifecycle, "preStop", json!({ "httpGet": get }));
    }
}
