//! The document that the operator pushes and the sidecar obeys, the messages of the channel
//! between them, and what the sidecar is told at its start. Plain data: no Kubernetes, no I/O, no clock.
//!
//! A [`Policy`] is made by `fairtide-resolve` from the user's objects, travels inside a
//! [`Message::Snapshot`], is checked by [`Policy::settings`] and then rules one pod for as long as
//! no other arrives. Readers ignore fields that they don't know, so that an older sidecar works
//! under a newer operator; a field that is missing takes its documented default.

#![deny(missing_docs)]

pub mod bootstrap;
mod document;
mod engine;
mod matching;
mod settings;
mod wire;

pub use bootstrap::Bootstrap;
pub use document::{
    Bucket, BucketUnit, Class, Limiter, Mode, ObjectRef, Policy, Queue, Tenancy, TenantSource, Tier,
};
pub use engine::Engine;
pub use matching::{HeaderMatch, JsonFieldMatch, Match, StringMatch};
pub use settings::PolicyError;
pub use wire::{ClassReport, Message, PROTOCOL_VERSION, Report};

#[cfg(test)]
mod tests;
