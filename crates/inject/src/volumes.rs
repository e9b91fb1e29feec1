//! The sidecar's volumes: memory for its files, a token of its own audience together with the
//! pod's mode, and the engine's socket where there is one.
//!
//! Memory, since a volume on the node's disk keeps the cluster autoscaler from emptying the node.

use crate::{
    context::Context,
    edit::Edit,
    names,
    pod::{Container, Pod},
    refusal::Refusal,
    status::Status,
    takeover::Takeover,
};
use serde_json::{Value, json};

/// Annotation with the volumes that don't keep the cluster autoscaler from evicting a pod.
const EVICTABLE: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";

/// Refuses a pod with volumes of our names. Only before the first injection.
pub(crate) fn check_free(pod: Pod<'_>) -> Result<(), Refusal> {
    let mut ours = [names::RUN_VOLUME, names::TOKEN_VOLUME, names::ENGINE_VOLUME].into_iter();
    match ours.find(|name| pod.has_volume(name)) {
        Some(name) => Err(Refusal::VolumeTaken { name }),
        None => Ok(()),
    }
}

/// Adds the volumes that are missing.
pub(crate) fn add(edit: &mut Edit, pod: Pod<'_>, context: &Context, status: &Status) {
    let mode = format!("metadata.annotations['{}']", names::MODE);
    let token = json!({ "serviceAccountToken": {
        "audience": context.operator.token_audience,
        "expirationSeconds": 3600,
        "path": names::TOKEN_FILE,
    }});
    let mode = json!({ "downwardAPI": { "items": [
        { "path": names::MODE_FILE, "fieldRef": { "apiVersion": "v1", "fieldPath": mode } },
    ]}});
    let mut volumes = vec![
        (names::RUN_VOLUME, memory("16Mi")),
        (
            names::TOKEN_VOLUME,
            json!({ "projected": { "sources": [token, mode] } }),
        ),
    ];
    if status.takeover == Takeover::Uds {
        volumes.push((names::ENGINE_VOLUME, memory("1Mi")));
    }
    for (name, mut volume) in volumes {
        if !pod.has_volume(name) {
            volume["name"] = json!(name);
            edit.push("/spec/volumes", volume);
        }
    }
    let old = pod.annotation(EVICTABLE).unwrap_or_default();
    let mut all: Vec<&str> = old.split(',').map(str::trim).collect();
    all.retain(|name| !name.is_empty());
    let count = all.len();
    let mut ours = vec![names::RUN_VOLUME];
    if status.takeover == Takeover::Uds {
        ours.push(names::ENGINE_VOLUME);
    }
    for name in ours {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    if all.len() > count {
        let all = Value::String(all.join(","));
        edit.set_key("/metadata/annotations", EVICTABLE, all);
    }
}

/// Mounts the socket's folder into the engine's container.
pub(crate) fn mount_socket(edit: &mut Edit, target: Container<'_>) {
    let mut mounts = target.array("volumeMounts");
    let mounted = mounts.any(|mount| {
        let name = mount.get("name").and_then(Value::as_str);
        name == Some(names::ENGINE_VOLUME)
    });
    if !mounted {
        let path = format!("{}/volumeMounts", target.path());
        edit.push(
            &path,
            mount(names::ENGINE_VOLUME, names::ENGINE_FOLDER, false),
        );
    }
}

/// The sidecar's mounts.
pub(crate) fn of_sidecar(status: &Status) -> Value {
    let mut mounts = vec![
        mount(names::RUN_VOLUME, names::RUN_FOLDER, false),
        mount(names::TOKEN_VOLUME, names::TOKEN_FOLDER, true),
    ];
    if status.takeover == Takeover::Uds {
        mounts.push(mount(names::ENGINE_VOLUME, names::ENGINE_FOLDER, false));
    }
    Value::Array(mounts)
}

fn memory(limit: &str) -> Value {
    json!({ "emptyDir": { "medium": "Memory", "sizeLimit": limit } })
}

fn mount(name: &str, path: &str, read_only: bool) -> Value {
    let mut mount = json!({ "name": name, "mountPath": path });
    if read_only {
        mount["readOnly"] = json!(true);
    }
    mount
}
