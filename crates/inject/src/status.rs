//! What injection decided, kept on the pod.
//!
//! Another injection of the same pod starts from it, and not from the changed command line:
//! otherwise the port would move a second time.

use crate::{
    names,
    pod::Pod,
    refusal::Refusal,
    takeover::{Isolation, Takeover},
};
use fairtide_policy::Engine;
use serde::{Deserialize, Serialize};

/// The value of the annotation `fairtide.dev/status`, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Version of this document, 1.
    pub v: u32,
    /// Version of Fairtide that injected.
    pub version: String,
    /// How the sidecar gets the traffic.
    pub takeover: Takeover,
    /// What keeps clients from going around it. `Loopback` also where the engine did that by
    /// itself. With takeover `UDS` the socket does, whatever is written here.
    pub isolation: Isolation,
    /// What the engine is, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// The container whose port the sidecar took.
    pub container: String,
    /// The containers that wait with their end until the pod is drained.
    #[serde(default)]
    pub engine_containers: Vec<String>,
    /// The ports.
    pub ports: Vec<PortPair>,
    /// The sidecar's admin port.
    pub admin_port: u16,
    /// Whether the engine is dialled as `::1`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ipv6: bool,
}

/// A port of the sidecar, and the engine's port behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortPair {
    /// Where clients come in.
    pub listen: u16,
    /// Where the engine listens; `None`: on its Unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<u16>,
    /// The name that the port had in the engine's container, and has in the sidecar's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The port of the node that leads to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_port: Option<u16>,
}

/// The version that is written and read.
pub(crate) const VERSION: u32 = 1;

// === impl Status ===

impl Status {
    /// The status of a pod that was injected before.
    pub(crate) fn read(pod: Pod<'_>) -> Result<Option<Self>, Refusal> {
        let Some(text) = pod.annotation(names::STATUS) else {
            return match pod.sidecar() {
                Some(_) => Err(Refusal::ForeignSidecar),
                None => Ok(None),
            };
        };
        let status: Self = serde_json::from_str(text).map_err(|_| Refusal::StaleStatus {
            why: "it can't be read".to_owned(),
        })?;
        if status.v != VERSION {
            return Err(Refusal::StaleStatus {
                why: format!("its version {} isn't known here", status.v),
            });
        }
        if status.ports.is_empty() {
            return Err(Refusal::StaleStatus {
                why: "it names no port".to_owned(),
            });
        }
        Ok(Some(status))
    }

    /// The annotation's value.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a status has only string keys")
    }

    /// The pair that clients reach by this port.
    pub(crate) fn by_listen(&self, port: u16) -> Option<&PortPair> {
        self.ports.iter().find(|pair| pair.listen == port)
    }

    /// The pair whose engine listens on this port.
    pub(crate) fn by_upstream(&self, port: u16) -> Option<&PortPair> {
        let mut pairs = self.ports.iter();
        pairs.find(|pair| pair.upstream == Some(port))
    }

    /// The upstream as the sidecar dials it.
    pub(crate) fn dial(&self, upstream: Option<u16>) -> String {
        match upstream {
            None => format!("unix:{}", names::ENGINE_SOCKET),
            Some(port) if self.ipv6 => format!("[::1]:{port}"),
            Some(port) => format!("127.0.0.1:{port}"),
        }
    }

    /// Whether the kubelet can ask the engine itself.
    pub(crate) fn kubelet_reaches_engine(&self) -> bool {
        self.isolation != Isolation::Loopback && self.takeover != Takeover::Uds
    }
}
