//! What the sidecar is told in its environment: enough to serve for ever, also when the operator
//! never answers.

use crate::Engine;
use serde::{Deserialize, Serialize};

/// The value of `FAIRTIDE_BOOTSTRAP`, as JSON. Readers ignore fields that they don't know.
///
/// Who the pod is comes from variables beside it, which the kubelet fills in: `FAIRTIDE_POD`
/// (`namespace/name`), `FAIRTIDE_POD_UID` and `FAIRTIDE_POD_IPS` (comma-separated).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Version of this document, 1.
    pub v: u32,
    /// The ports to serve. All of them or none.
    pub listeners: Vec<Listener>,
    /// Address of probes, metrics and the drain hook, such as `[::]:29990`. An address on `[::]`
    /// means every address of the pod, also where the pod has no IPv6.
    pub admin: String,
    /// What the engine is. Unset: the sidecar finds out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// How the engine's health is found.
    #[serde(default)]
    pub checks: Checks,
    /// How the pod's end is spent.
    pub drain: Drain,
    /// Whether the pod is on its node's network. Then loopback belongs to the whole node, and
    /// what is shown to loopback peers only must be shown to nobody.
    #[serde(default)]
    pub host_network: bool,
    /// A folder in memory that outlives the sidecar's process, not the pod.
    pub state_folder: String,
    /// A file with the value of the pod's annotation `fairtide.dev/mode`; empty without one. It
    /// follows the annotation, without the operator.
    pub mode_file: String,
    /// The pool that selects the pod. Unset: none did when the pod was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// Where policies come from.
    pub channel: Channel,
    /// The policy document to obey until the channel brings one. Unset: no limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<serde_json::Value>,
}

/// A port to serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Address to take traffic on, such as `[::]:8000`.
    pub listen: String,
    /// Where its engine is: `127.0.0.1:28000`, `[::1]:28000` or `unix:/run/fairtide-engine/engine.sock`.
    ///
    /// The file of a Unix socket outlives an engine that crashed, and keeps the next one from
    /// binding. vLLM doesn't remove it, so the sidecar does, once `/proc/net/unix` of the pod's
    /// network has no socket of that path. (A connection that is refused proves nothing: vLLM
    /// binds first and listens minutes later.)
    pub upstream: String,
}

/// How the engine's health is found. What is unset has the engine's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checks {
    /// Served to the kubelet as `/engine/startup` on the admin port, where it can't ask the
    /// engine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<Check>,
    /// Likewise `/engine/live`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness: Option<Check>,
    /// Part of the sidecar's own readiness; and `/engine/ready`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Check>,
}

/// A probe that the user wrote for the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Whom to ask, as [`Listener::upstream`].
    pub upstream: String,
    /// What to ask.
    pub action: CheckAction,
    /// When an answer comes too late.
    pub timeout_seconds: u32,
}

/// What a check does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum CheckAction {
    /// GET; 200 to 399 is good.
    Http {
        /// With its query.
        path: String,
        /// Sent along.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        headers: Vec<Header>,
    },
    /// A connection is good.
    Tcp,
    /// gRPC's health service.
    Grpc {
        /// The service asked for.
        #[serde(default)]
        service: String,
    },
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// How the pod's end is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// What the kubelet gives from the deletion to the kill.
    pub grace_seconds: u32,
    /// How long the pod goes on as before, since it is still routed to.
    pub lame_duck_seconds: u32,
    /// What is kept for the engine to stop in.
    pub engine_stop_seconds: u32,
}

/// Names a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Where policies come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Channel {
    /// An `https` URL.
    pub url: String,
    /// The certificate authorities of that URL, PEM.
    pub ca_pem: String,
    /// File of the token to show, read anew for each connection.
    pub token_file: String,
}
