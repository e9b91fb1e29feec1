//! The sidecar's security context: what Pod Security `restricted` demands, whatever the pod has.
//!
//! The image names its user by number, and on OpenShift the namespace's range gives one, so none
//! is written here, with two exceptions. A pod that runs as root would make the sidecar root too,
//! which `runAsNonRoot` then forbids: it gets a user of its own. And the Unix socket of the engine
//! is open to the engine's user only.
//!
//! A port below 1024 (TGI's 80) is root's alone unless the pod says otherwise. No capability helps
//! a process that isn't root and may not gain privileges; a sysctl of the pod does, one that
//! `restricted` allows.

use crate::{
    edit::Edit,
    pod::{Container, Pod},
    refusal::Refusal,
    status::Status,
    takeover::Takeover,
};
use serde_json::{Value, json};

/// The user of the sidecar's image.
const USER: i64 = 65_532;

/// The first port that anybody may bind.
const UNPRIVILEGED: u16 = 1024;
const UNPRIVILEGED_START: &str = "net.ipv4.ip_unprivileged_port_start";

/// Lets the sidecar bind its ports.
pub(crate) fn allow_low_ports(
    edit: &mut Edit,
    pod: Pod<'_>,
    status: &Status,
) -> Result<(), Refusal> {
    let ports = status.ports.iter().map(|pair| pair.listen);
    let lowest = ports.chain([status.admin_port]).min();
    let Some(lowest) = lowest.filter(|port| *port < UNPRIVILEGED) else {
        return Ok(());
    };
    if pod.host_network() {
        // There the sysctl would be the node's.
        return Err(Refusal::LowPort { port: lowest });
    }
    let sysctls = "/spec/securityContext/sysctls";
    let there = edit.get(sysctls).and_then(Value::as_array);
    let mut there = there.into_iter().flatten().enumerate();
    let there = there.find_map(|(index, sysctl)| {
        let name = sysctl.get("name")?.as_str()?;
        let value = sysctl.get("value").and_then(Value::as_str);
        (name == UNPRIVILEGED_START).then(|| (index, value.and_then(|it| it.parse::<u16>().ok())))
    });
    let value = Value::String(lowest.to_string());
    match there {
        Some((_, Some(start))) if start <= lowest => {}
        Some((index, _)) => edit.set(&format!("{sysctls}/{index}/value"), value),
        None => {
            let sysctl = json!({ "name": UNPRIVILEGED_START, "value": value });
            if edit.get("/spec/securityContext").is_some() {
                edit.push(sysctls, sysctl);
            } else {
                edit.set("/spec/securityContext", json!({ "sysctls": [sysctl] }));
            }
        }
    }
    Ok(())
}

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
