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
mod classify;
mod decisions;
mod engine_watch;
mod estimate;
mod exchange;
mod flags;
mod forward;
mod hop;
mod in_force;
mod metrics;
mod pass_through;
mod path;
mod request_id;
mod respond;
mod run;
mod source;
mod stream;
mod tenant;

pub use flags::{Asked, Flags, UsageError};
pub use run::{Config, RunError, Sidecar, StartError};
pub use source::{
    PolicySource,
    channel::ChannelConfig,
    manifests::{Faults, ManifestsError},
};
