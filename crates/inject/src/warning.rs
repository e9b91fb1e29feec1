//! What a user should know about a pod that was injected all the same.

use crate::names;

/// Something to know. Shown by `kubectl` when the pod is created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// The engine ends with a hook of the user's.
    #[error(
        "container {container} has a preStop hook of its own, which is kept: the engine stops when it ends, with running requests if need be"
    )]
    OwnPreStop {
        /// The container.
        container: String,
    },
    /// Nothing holds the engine back at the end.
    #[error(
        "on the node's network no hook can hold the engine back at the pod's end: give it time by a flag of its own (vLLM: --shutdown-timeout)"
    )]
    NoDrainHook,
    /// It isn't known which container to hold back at the end.
    #[error("it isn't known which container is the engine, so none is held back until running requests ended: write {key}: NAME", key = names::ENGINE_CONTAINER)]
    NoEngineContainer,
    /// The quality-of-service class changes.
    #[error("the pod was BestEffort and is Burstable with the sidecar's requests")]
    BestEffort,
    /// The sidecar lives on what the pod has.
    #[error(
        "the pod's own resources hold for all its containers: add 250m CPU and 512Mi memory for the sidecar"
    )]
    PodResources,
    /// A probe names a host.
    #[error(
        "{field} of container {container} names the host {host:?}: the kubelet asks that host, not the pod, and newer clusters forbid it; remove it"
    )]
    ProbeHost {
        /// `livenessProbe`, say.
        field: &'static str,
        /// The container.
        container: String,
        /// The host.
        host: String,
    },
    /// A busy engine may be restarted.
    #[error(
        "livenessProbe of container {container} waits only 1 s for an answer, which a busy engine may miss: write timeoutSeconds: 5 or more"
    )]
    ShortLiveness {
        /// The container.
        container: String,
    },
    /// A service mesh came first.
    #[error(
        "{mesh} was injected before the sidecar: where it demands mTLS, the kubelet reaches the sidecar's port {port} only with annotation {key}: \"{port}\" on the pod template"
    )]
    MeshFirst {
        /// Which mesh.
        mesh: &'static str,
        /// The admin port.
        port: u16,
        /// The mesh's annotation.
        key: &'static str,
    },
    /// Clients may use the number.
    #[error(
        "takeover Named: clients that use the number {port} in the place of the name go around the sidecar"
    )]
    NamedOnly {
        /// The number.
        port: u16,
    },
    /// The scraper goes around the sidecar.
    #[error(
        "annotation prometheus.io/port is the engine's own port {port}: its metrics come without what the sidecar holds"
    )]
    ScrapesEngine {
        /// The port.
        port: u16,
    },
    /// No port of the engine is declared.
    #[error(
        "container {container} serves port {port} and declares only others: check what clients use"
    )]
    UndeclaredPort {
        /// The container.
        container: String,
        /// Its port.
        port: u16,
    },
    /// Settings that aren't seen.
    #[error(
        "container {container} reads settings from {place}, which isn't seen here: no TLS and no single host may be set there"
    )]
    Unread {
        /// The container.
        container: String,
        /// From where.
        place: String,
    },
}
