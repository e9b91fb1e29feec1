//! Every name that injection writes into a pod or reads from one. They are part of the product's
//! interface.

/// Label on a pod or a namespace that asks for the sidecar, or forbids it.
pub const INJECT_LABEL: &str = "fairtide.dev/inject";
/// Value of [`INJECT_LABEL`] that asks.
pub const ENABLED: &str = "enabled";
/// Value of [`INJECT_LABEL`] that forbids.
pub const DISABLED: &str = "disabled";

/// Label of pods that have the sidecar; its value is `true`.
pub const INJECTED_LABEL: &str = "fairtide.dev/injected";
/// Label that a NetworkPolicy selects by; only on pods whose isolation is `NetworkPolicy`.
pub const ISOLATION_LABEL: &str = "fairtide.dev/isolation";

/// Annotation in which injection keeps what it decided.
pub const STATUS: &str = "fairtide.dev/status";
/// Annotation: `PortSwap`, `Manual`, `Named` or `UDS`.
pub const TAKEOVER: &str = "fairtide.dev/takeover";
/// Annotation: `Open`, `NetworkPolicy` or `Loopback`.
pub const ISOLATION: &str = "fairtide.dev/isolation";
/// Annotation: `VLLM`, `TGI` or `SGLang`, for images that don't tell by their name.
pub const ENGINE: &str = "fairtide.dev/engine";
/// Annotation: the name of the container whose port the sidecar takes.
pub const ENGINE_CONTAINER: &str = "fairtide.dev/engine-container";
/// Annotation: the ports that clients use, such as `8000`, `8000,8001` or `8000-8007`.
pub const LISTEN_PORTS: &str = "fairtide.dev/listen-ports";
/// Annotation: the ports that the engine was moved to, in the order of [`LISTEN_PORTS`].
pub const UPSTREAM_PORTS: &str = "fairtide.dev/upstream-ports";
/// Annotation: another number for [`ADMIN_PORT`].
pub const ADMIN_PORT_KEY: &str = "fairtide.dev/admin-port";
/// Annotation: how many seconds running requests get to end in when the pod is deleted.
pub const DRAIN_SECONDS: &str = "fairtide.dev/drain-seconds";
/// Annotation: `enabled` allows the sidecar in a pod on its node's network.
pub const HOST_NETWORK: &str = "fairtide.dev/host-network";
/// Annotation: `Leader` or `All`, the pods of a LeaderWorkerSet that get the sidecar.
pub const LWS_ROLES: &str = "fairtide.dev/lws-roles";
/// Annotation: request of the sidecar, a quantity.
pub const CPU_REQUEST: &str = "fairtide.dev/cpu-request";
/// Annotation: limit of the sidecar, a quantity.
pub const CPU_LIMIT: &str = "fairtide.dev/cpu-limit";
/// Annotation: request of the sidecar, a quantity.
pub const MEMORY_REQUEST: &str = "fairtide.dev/memory-request";
/// Annotation: limit of the sidecar, a quantity.
pub const MEMORY_LIMIT: &str = "fairtide.dev/memory-limit";
/// Annotation that the sidecar itself follows while it runs: the mode of this one pod.
pub const MODE: &str = "fairtide.dev/mode";

/// What a key of ours begins with.
pub const PREFIX: &str = "fairtide.dev/";
/// The annotations that may stand on a pod.
pub const ANNOTATIONS: &[&str] = &[
    TAKEOVER,
    ISOLATION,
    ENGINE,
    ENGINE_CONTAINER,
    LISTEN_PORTS,
    UPSTREAM_PORTS,
    ADMIN_PORT_KEY,
    DRAIN_SECONDS,
    HOST_NETWORK,
    LWS_ROLES,
    CPU_REQUEST,
    CPU_LIMIT,
    MEMORY_REQUEST,
    MEMORY_LIMIT,
    MODE,
    STATUS,
];

/// Name of the sidecar's container.
pub const SIDECAR: &str = "fairtide-sidecar";
/// The sidecar's program in its image.
pub const PROGRAM: &str = "/fairtide-sidecar";
/// Variable that holds the sidecar's [`Bootstrap`](crate::Bootstrap).
pub const BOOTSTRAP: &str = "FAIRTIDE_BOOTSTRAP";

/// Probes, metrics and the drain hook of the sidecar. Below the NodePort range and the ephemeral
/// ports, above what Ray's workers use.
pub const ADMIN_PORT: u16 = 29_990;
/// The name of that port.
pub const ADMIN_PORT_NAME: &str = "fairtide-admin";
/// Admin path that answers once the pod is drained.
pub const DRAIN_PATH: &str = "/drain/wait";

/// Volume of the sidecar's memory files.
pub const RUN_VOLUME: &str = "fairtide-run";
/// Where it is mounted.
pub const RUN_FOLDER: &str = "/run/fairtide";
/// Volume of the token and the pod's mode.
pub const TOKEN_VOLUME: &str = "fairtide-token";
/// Where it is mounted.
pub const TOKEN_FOLDER: &str = "/var/run/secrets/fairtide.dev";
/// The token's file in it.
pub const TOKEN_FILE: &str = "token";
/// The file with the value of the [`MODE`] annotation in it.
pub const MODE_FILE: &str = "mode";
/// Volume of the engine's socket, with takeover `UDS`.
pub const ENGINE_VOLUME: &str = "fairtide-engine";
/// Where it is mounted, in the engine's container and in the sidecar.
pub const ENGINE_FOLDER: &str = "/run/fairtide-engine";
/// The socket in it.
pub const ENGINE_SOCKET: &str = "/run/fairtide-engine/engine.sock";
