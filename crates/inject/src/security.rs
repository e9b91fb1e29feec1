//! The sidecar's security context: what Pod Security `restricted` demands, whatever the pod has.
//!
//! The image names its user by number, and on OpenShift the namespace's range gives one, so none
//! is written here, with two exceptions. A pod that runs as root would make the sidecar root too,
//! which `runAsNonRoot` then forbids: it gets a user of its own. And the Unix socket of the engine
//! is open to the engine's user only.

use crate::{
    pod::{Container, Pod},
    status::Status,
    takeover::Takeover,
};
use serde_json::{Value, json};

/// The user of the sidecar's image.
const USER: i64 = 65_532;

/// The sidecar's security context.
pub(crate) fn of_sidecar(pod: Pod<'_>, target: Container<'_>, status: &Status) -> Value {
    let mut context = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    let pods = pod.spec("securityContext");
    let pods = pods.and_then(|context| context.get("runAsUser")?.as_i64());
    let user = match status.takeover {
        Takeover::Uds => target.user(pod),
        _ => (pods == Some(0)).then_some(USER),
    };
    if let Some(user) = user {
        context["runAsUser"] = json!(user);
    }
    context
}
