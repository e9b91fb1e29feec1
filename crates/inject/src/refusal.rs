//! Why a pod isn't injected, in a sentence that says what to write instead.

use crate::{context::ServerVersion, names, takeover::Takeover};
use fairtide_policy::Engine;

/// A pod that was to be injected and can't be. Its message is for the person who wrote the pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The document isn't a pod.
    #[error("{at} must be {wanted}")]
    NotAPod {
        /// Where.
        at: String,
        /// What must be there.
        wanted: &'static str,
    },
    /// The opt-in label has another value.
    #[error("label {key} is {value:?}: write enabled or disabled", key = names::INJECT_LABEL)]
    BadLabel {
        /// The value.
        value: String,
    },
    /// An annotation that nobody reads, most likely misspelt.
    #[error("nothing reads annotation {key}: write one of {known}", known = names::ANNOTATIONS.join(", "))]
    UnknownAnnotation {
        /// It.
        key: String,
    },
    /// An annotation can't be understood.
    #[error("annotation {key} is {value:?}: write {write}")]
    BadAnnotation {
        /// It.
        key: &'static str,
        /// Its value.
        value: String,
        /// What to write.
        write: String,
    },
    /// A resource of the sidecar can't be understood.
    #[error("the sidecar's {name} is {value:?}: write a quantity, such as 500m or 1Gi")]
    BadQuantity {
        /// The resource.
        name: String,
        /// The value.
        value: String,
    },
    /// The sidecar would request more than it may use.
    #[error(
        "the sidecar's {name} request is above its limit: raise the limit or lower the request"
    )]
    RequestAboveLimit {
        /// The resource.
        name: String,
    },
    /// The pod is for Windows nodes.
    #[error("the pod is for Windows nodes, on which the sidecar doesn't run: label it {label}: disabled", label = names::INJECT_LABEL)]
    Windows,
    /// The cluster can't run sidecars as init containers.
    #[error(
        "Kubernetes {version} doesn't start init containers as sidecars: 1.29 or newer is needed"
    )]
    OldKubernetes {
        /// Its version.
        version: ServerVersion,
    },
    /// The cluster's Services don't find the named port of a sidecar.
    #[error("takeover Named needs Kubernetes 1.32 or newer, this is {version}: Services don't find the sidecar's port name before; write {takeover}: PortSwap", takeover = names::TAKEOVER)]
    OldKubernetesForNames {
        /// Its version.
        version: ServerVersion,
    },
    /// The pod is on its node's network and doesn't say that this is meant.
    #[error("the pod is on its node's network, where the sidecar's ports are taken on the whole node: write {key}: enabled to have it so", key = names::HOST_NETWORK)]
    HostNetwork,
    /// A NetworkPolicy was asked for where none applies.
    #[error("isolation NetworkPolicy can't work on the node's network: write {key}: Loopback or Open", key = names::ISOLATION)]
    HostNetworkPolicy,
    /// A port that only root may bind.
    #[error(
        "port {port} is below 1024, which on the node's network only root may bind, and the sidecar isn't: give the engine a higher one"
    )]
    LowPort {
        /// The port.
        port: u16,
    },
    /// No container has this name.
    #[error("annotation {key} names {name:?}, and there is no such running container: write one of {known}", key = names::ENGINE_CONTAINER)]
    NoSuchContainer {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// Several containers may be the engine.
    #[error("containers {names} may each be the engine: write {key}: NAME", key = names::ENGINE_CONTAINER)]
    Ambiguous {
        /// They.
        names: String,
    },
    /// No engine is recognised.
    #[error("container {container} starts {what}, which isn't known as an engine: if it is one, {help}; if it is none, label the pod {label}: disabled", label = names::INJECT_LABEL)]
    NotAnEngine {
        /// The container.
        container: String,
        /// What it starts.
        what: String,
        /// What to write where it is an engine.
        help: String,
    },
    /// An engine's program that serves nothing.
    #[error("container {container} runs {what}, which serves no HTTP: label the pod {label}: disabled", label = names::INJECT_LABEL)]
    NoServer {
        /// The container.
        container: String,
        /// What it runs.
        what: String,
    },
    /// A shell starts the engine.
    #[error(
        "container {container} starts its engine in a shell ({shell}), where its port can't be moved from outside: write the command without the shell, or {manual}"
    )]
    Shell {
        /// The container.
        container: String,
        /// The shell.
        shell: String,
        /// What to write for takeover Manual.
        manual: String,
    },
    /// The pool or an annotation says another engine than the one that runs.
    #[error("container {container} runs {found}, but {source_of} says {said}: correct one of them")]
    OtherEngine {
        /// The container.
        container: String,
        /// What it runs.
        found: Engine,
        /// Who says otherwise.
        source_of: String,
        /// What is said.
        said: Engine,
    },
    /// A port that is none.
    #[error("container {container}: {name} is {value:?}: write a port, 1 to 65535")]
    BadPort {
        /// The container.
        container: String,
        /// The flag or variable.
        name: String,
        /// Its value.
        value: String,
    },
    /// The number of data-parallel ranks isn't known.
    #[error(
        "container {container} serves one port for each of its data-parallel ranks, and their number can't be read: write {flag} as a number, 1 to 64"
    )]
    BadRanks {
        /// The container.
        container: String,
        /// The flag that has it.
        flag: &'static str,
    },
    /// The port isn't known from the pod.
    #[error("the port of container {container} isn't written in the pod ({unread} may set it): write --port on its command line, or declare it in the container's ports, or write {key}: \"PORT\"", key = names::LISTEN_PORTS)]
    PortUnknown {
        /// The container.
        container: String,
        /// What may set it.
        unread: String,
    },
    /// Clients are said to use another port than the engine serves.
    #[error(
        "{source_of} says that clients use port {wanted}, but container {container} serves {served}: correct one of them"
    )]
    OtherPort {
        /// Who says so.
        source_of: String,
        /// What is said.
        wanted: String,
        /// The container.
        container: String,
        /// What it serves.
        served: String,
    },
    /// Takeover Manual, and the engine is where it was.
    #[error("{key} says that the engine was moved to {wanted}, but container {container} serves {served}: move it by its command line", key = names::UPSTREAM_PORTS)]
    NotMoved {
        /// Where it should be.
        wanted: String,
        /// The container.
        container: String,
        /// Where it is.
        served: u16,
    },
    /// Takeover Manual without its ports.
    #[error("takeover Manual needs the ports: write {listen}: \"8000\" (where clients come in) and {upstream}: \"28000\" (where the engine was moved to)", listen = names::LISTEN_PORTS, upstream = names::UPSTREAM_PORTS)]
    ManualPorts,
    /// Ports that don't go together.
    #[error("{listen_key} has {listen} and {upstream_key} has {upstream}: write as many in each, and none in both", listen_key = names::LISTEN_PORTS, upstream_key = names::UPSTREAM_PORTS)]
    PortsDontMatch {
        /// Those of clients.
        listen: String,
        /// Those of the engine.
        upstream: String,
    },
    /// Ports of the engine were given where they are chosen.
    #[error("{key} goes with takeover Manual only, not with {takeover}", key = names::UPSTREAM_PORTS)]
    UpstreamPorts {
        /// The takeover.
        takeover: Takeover,
    },
    /// A port of the sidecar is taken.
    #[error("port {port} is to be the sidecar's, but {holders} has it: {write}")]
    PortTaken {
        /// The port.
        port: u16,
        /// Who has it.
        holders: String,
        /// What to write.
        write: String,
    },
    /// The ports that the engine would move to are all taken.
    #[error("no port from 20000 to 29999 is free for the engine: write {key}: Manual", key = names::TAKEOVER)]
    NoFreePort,
    /// The engine serves TLS.
    #[error(
        "container {container} serves TLS ({sign}), and the sidecar speaks plain HTTP: end TLS before the pod, and switch it off here"
    )]
    Tls {
        /// The container.
        container: String,
        /// What says so.
        sign: String,
    },
    /// The engine serves gRPC.
    #[error("container {container} serves gRPC ({sign}), and the sidecar speaks HTTP: label the pod {label}: disabled", label = names::INJECT_LABEL)]
    Grpc {
        /// The container.
        container: String,
        /// What says so.
        sign: String,
    },
    /// The engine binds an address that isn't loopback's.
    #[error("container {container} binds {host}, where the sidecar can't reach it: write 0.0.0.0 in its place, or annotation {key}: Loopback", key = names::ISOLATION)]
    HostUnreachable {
        /// The container.
        container: String,
        /// The address.
        host: String,
    },
    /// The server's address can't be set.
    #[error("container {container} can't be told to bind loopback only: write {key}: Open or NetworkPolicy", key = names::ISOLATION)]
    NoHostSetting {
        /// The container.
        container: String,
    },
    /// The engine serves a Unix socket by itself.
    #[error("container {container} serves the Unix socket {path:?}: remove --uds and write {key}: UDS", key = names::TAKEOVER)]
    OwnSocket {
        /// The container.
        container: String,
        /// The socket.
        path: String,
    },
    /// The engine can't serve a Unix socket.
    #[error("takeover UDS is for vLLM on one port, and container {container} is none: write {key}: PortSwap", key = names::TAKEOVER)]
    NoSocket {
        /// The container.
        container: String,
    },
    /// The socket would be the engine's user's alone.
    #[error(
        "takeover UDS needs the user that container {container} runs as: vLLM's socket is open to its own user only; write securityContext.runAsUser, and not 0"
    )]
    SocketUser {
        /// The container.
        container: String,
    },
    /// There is no port name to take.
    #[error("takeover Named needs a name: container {container} declares none for port {port}; name it in its ports, or write {key}: PortSwap", key = names::TAKEOVER)]
    NoPortName {
        /// The container.
        container: String,
        /// Its port.
        port: u16,
    },
    /// A command of a probe or hook means the engine's port in a way that can't be changed surely.
    #[error(
        "{field} of container {container} runs a command that speaks of {what} in a way that can't be changed surely: write http://localhost:{port}/..., or use httpGet"
    )]
    ExecPort {
        /// `livenessProbe`, say.
        field: &'static str,
        /// The container.
        container: String,
        /// What it speaks of.
        what: String,
        /// The port.
        port: u16,
    },
    /// A probe's or hook's command would end at the sidecar.
    #[error(
        "{field} of container {container} asks port {port} from inside, which is the sidecar's once the engine has a Unix socket: use httpGet"
    )]
    ExecSocket {
        /// `livenessProbe`, say.
        field: &'static str,
        /// The container.
        container: String,
        /// The port.
        port: u16,
    },
    /// A hook of the kubelet would not reach the engine any more.
    #[error(
        "{field} of container {container} calls the engine from outside, which ends with it on loopback or a Unix socket: use exec"
    )]
    HookUnreachable {
        /// `preStop` or `postStart`.
        field: &'static str,
        /// The container.
        container: String,
    },
    /// Istio took the probes over, and its proxy can't reach the engine any more.
    #[error("Istio was injected before the sidecar and probes container {container} itself, which ends with the engine on loopback or a Unix socket: write {key}: Open", key = names::ISOLATION)]
    MeshProbes {
        /// The container.
        container: String,
    },
    /// A volume of the sidecar's name is another's.
    #[error("volume {name} is the sidecar's: give yours another name")]
    VolumeTaken {
        /// The name.
        name: &'static str,
    },
    /// A container of the sidecar's name that injection didn't make.
    #[error("container {name} is there without annotation {key}: remove the container, and the sidecar is put in by the label", name = names::SIDECAR, key = names::STATUS)]
    ForeignSidecar,
    /// What the pod's status says isn't so any more.
    #[error("annotation {key} doesn't fit the pod ({why}): remove it and container {sidecar}, and write the engine's original command line", key = names::STATUS, sidecar = names::SIDECAR)]
    StaleStatus {
        /// What doesn't fit.
        why: String,
    },
}

// === impl Refusal ===

impl Refusal {
    /// A fixed word for it, for metric labels and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotAPod { .. } => "NotAPod",
            Self::BadLabel { .. }
            | Self::UnknownAnnotation { .. }
            | Self::BadAnnotation { .. }
            | Self::ManualPorts
            | Self::NotMoved { .. }
            | Self::PortsDontMatch { .. }
            | Self::UpstreamPorts { .. } => "BadAnnotation",
            Self::BadQuantity { .. } | Self::RequestAboveLimit { .. } => "BadResources",
            Self::Windows => "Windows",
            Self::OldKubernetes { .. } | Self::OldKubernetesForNames { .. } => "OldKubernetes",
            Self::HostNetwork | Self::HostNetworkPolicy | Self::LowPort { .. } => "HostNetwork",
            Self::NoSuchContainer { .. } | Self::Ambiguous { .. } => "AmbiguousEngine",
            Self::NotAnEngine { .. } | Self::NoServer { .. } => "NotAnEngine",
            Self::Shell { .. } => "ShellCommand",
            Self::OtherEngine { .. } => "OtherEngine",
            Self::BadPort { .. } | Self::BadRanks { .. } => "BadCommandLine",
            Self::PortUnknown { .. } | Self::OtherPort { .. } => "PortUnknown",
            Self::PortTaken { .. } | Self::NoFreePort => "PortTaken",
            Self::Tls { .. } | Self::Grpc { .. } => "NotPlainHttp",
            Self::HostUnreachable { .. } | Self::NoHostSetting { .. } => "HostUnreachable",
            Self::OwnSocket { .. } | Self::NoSocket { .. } | Self::SocketUser { .. } => "NoSocket",
            Self::NoPortName { .. } => "NoPortName",
            Self::ExecPort { .. }
            | Self::ExecSocket { .. }
            | Self::HookUnreachable { .. }
            | Self::MeshProbes { .. } => "ProbeOrHook",
            Self::VolumeTaken { .. } => "VolumeTaken",
            Self::ForeignSidecar | Self::StaleStatus { .. } => "StaleStatus",
        }
    }
}
