//! What must be known besides the pod. It is all data, so that the webhook, the command line and
//! the tests inject alike.

use crate::{
    resources::Resources,
    takeover::{Isolation, Takeover},
};
use fairtide_policy::Engine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that injection depends on besides the pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Context {
    /// The pod's namespace.
    #[serde(default)]
    pub namespace: Namespace,
    /// The pool that selects the pod. `None` while there is none yet: the pod is injected with
    /// defaults, and bound once the pool exists.
    #[serde(default)]
    pub pool: Option<Pool>,
    /// The operator and its cluster.
    pub operator: Operator,
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Namespace {
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its annotations: defaults for the pods in it.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// The pool that selects the pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pool {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The ports that its clients use. Empty: not known.
    #[serde(default)]
    pub target_ports: Vec<u16>,
    /// The engine, where the pool says so.
    #[serde(default)]
    pub engine: Option<Engine>,
    /// Its settings for injection.
    #[serde(default)]
    pub settings: PoolSettings,
    /// The policy that the sidecar obeys until the operator sends one, as a policy document.
    #[serde(default)]
    pub policy: Option<serde_json::Value>,
}

/// How a pool wants its pods injected. Unset: the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolSettings {
    /// Default: `PortSwap`.
    #[serde(default)]
    pub takeover: Option<Takeover>,
    /// Default: `Open`.
    #[serde(default)]
    pub isolation: Option<Isolation>,
    /// What the sidecar requests and may use.
    #[serde(default)]
    pub resources: Resources,
    /// How many seconds running requests get to end in when the pod is deleted. Default: 300.
    #[serde(default)]
    pub drain_seconds: Option<u32>,
    /// Image of the sidecar. Default: the operator's.
    #[serde(default)]
    pub image: Option<String>,
}

/// The operator and its cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Operator {
    /// Image of the sidecar, best with a digest.
    pub sidecar_image: String,
    /// Where sidecars fetch policies: an `https` URL.
    pub channel_url: String,
    /// The certificate authorities of that URL, PEM.
    pub channel_ca_pem: String,
    /// Audience of the sidecars' tokens.
    #[serde(default = "audience")]
    pub token_audience: String,
    /// The API server's version. `None`: not known, nothing is refused for it.
    #[serde(default)]
    pub kubernetes: Option<ServerVersion>,
}

/// Version of an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerVersion {
    /// 1.
    pub major: u32,
    /// 33.
    pub minor: u32,
}

fn audience() -> String {
    "fairtide.dev".to_owned()
}

// === impl ServerVersion ===

impl ServerVersion {
    /// The first with sidecars as init containers switched on.
    pub(crate) const SIDECARS: Self = Self {
        major: 1,
        minor: 29,
    };
    /// The first whose Services find the named port of such a sidecar.
    pub(crate) const NAMED_PORTS: Self = Self {
        major: 1,
        minor: 32,
    };
}

impl std::fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
