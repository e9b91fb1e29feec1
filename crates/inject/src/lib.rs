//! Puts the sidecar in front of an engine: from a pod as the API server shows it to a mutating
//! webhook, to a small JSON patch, or to a sentence that says what to write instead.
//!
//! [`inject`] is a pure function on raw JSON. A pod that passed through typed structs would lose
//! every field that those structs don't know yet, in everybody's pods; so nothing is decoded, and
//! the patch names only what it changes.
//!
//! How it decides: was it asked ([`Skip`]), which container serves and how it is started, which
//! ports the sidecar takes and where the engine goes ([`Status`], kept on the pod as an
//! annotation). Then every part of the pod is brought to that state, and what is there already is
//! left alone: that is why injecting twice changes nothing, also after other webhooks changed the
//! pod in between. What can't be known is never guessed ([`Refusal`]).

#![deny(missing_docs)]

mod asked;
mod by_hand;
mod choose;
mod container_ports;
mod context;
mod drain;
mod edit;
mod exec_text;
mod host;
mod inject;
mod launch;
mod listen;
mod mesh;
pub mod names;
mod patch;
mod plan;
mod pod;
mod port_list;
mod probes;
mod qos;
mod quantity;
mod refusal;
mod resources;
mod security;
mod shape;
mod sidecar;
mod start;
mod status;
mod takeover;
mod variables;
mod volumes;
mod warning;
mod wishes;
mod words;

pub use asked::Skip;
pub use context::{Context, Namespace, Operator, Pool, PoolSettings, ServerVersion};
pub use fairtide_policy::Engine;
pub use inject::{Injection, Outcome, inject};
pub use patch::{Operation, Patch, PatchError};
pub use qos::{QosClass, qos_class};
pub use refusal::Refusal;
pub use resources::Resources;
pub use status::{PortPair, Status};
pub use takeover::{Isolation, Takeover};
pub use warning::Warning;
