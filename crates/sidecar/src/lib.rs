//! The admission sidecar: a streaming reverse proxy in front of one engine, which queues, orders,
//! limits and refuses by the policy in force. Everything that decides is in `fairtide-scheduler`;
//! here is HTTP around it.
//!
//! Read [`path`] first: it follows a request from its arrival to the answer, and names the module
//! of each step.

mod accept;
mod admin;
mod admission;
mod body;
mod bootstrap;
mod checks;
mod classify;
mod decisions;
mod dial;
mod drain;
mod engine_restart;
mod engine_watch;
mod estimate;
mod exchange;
mod flags;
mod forward;
mod hop;
mod in_force;
mod lifecycle;
mod listen;
mod mark;
mod metrics;
mod mode;
mod pass_through;
mod path;
mod pod;
mod pod_state;
mod readiness;
mod request_id;
mod respond;
mod run;
mod self_check;
mod source;
mod stale_socket;
mod stream;
mod supervise;
mod tenant;

pub use dial::{EngineAddress, NoEngineAddress};
pub use flags::{Asked, Flags, Role, Run, UsageError, report_to_kubelet};
pub use lifecycle::DrainPlan;
pub use listen::{Listeners, NotInherited};
pub use mark::{MarkError, Marker};
pub use run::{Config, Port, RunError, Sidecar, StartError};
pub use source::{
    PolicySource,
    channel::{Authorities, ChannelConfig},
    manifests::{Faults, ManifestsError},
};
pub use supervise::{SuperviseError, die_with_supervisor, supervise};
