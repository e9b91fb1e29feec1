//! The messages of the channel: one JSON object a line, both ways, over one HTTP/2 stream
//! (`POST /v1/channel`) that the sidecar opens.
//!
//! ```text
//! sidecar → operator   hello, then ack or nack for each snapshot, report once a second
//! operator → sidecar   snapshot whenever the pod's policy changes, the first at once
//! ```

use crate::Policy;
use serde::{Deserialize, Serialize};

/// The `v` of every message. A reader refuses a higher one and understands all lower ones.
pub const PROTOCOL_VERSION: u32 = 1;

/// One line of the channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Message {
    /// The sidecar's first line: who it is, and what it obeys at present.
    Hello {
        /// [`PROTOCOL_VERSION`] of the sender.
        v: u32,
        /// `namespace/name` of the pod; the token's claims must name the same.
        pod: String,
        /// The sidecar's own version.
        sidecar_version: String,
        /// The version of the policy in force, if one came over a channel before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        applied: Option<String>,
    },
    /// A policy to put in force.
    Snapshot {
        /// [`PROTOCOL_VERSION`] of the sender.
        v: u32,
        /// [`Policy::version`].
        version: String,
        /// The whole policy, never a difference.
        policy: Box<Policy>,
    },
    /// The snapshot is in force.
    Ack {
        /// [`PROTOCOL_VERSION`] of the sender.
        v: u32,
        /// The snapshot's version.
        version: String,
    },
    /// The snapshot can't be obeyed; the policy before it stays in force.
    Nack {
        /// [`PROTOCOL_VERSION`] of the sender.
        v: u32,
        /// The snapshot's version.
        version: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The pod's figures.
    Report {
        /// [`PROTOCOL_VERSION`] of the sender.
        v: u32,
        /// The figures.
        #[serde(flatten)]
        report: Report,
    },
}

/// What a pod demands, serves and may do. Counts are totals since the sidecar's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The version of the policy in force; `None`: the bootstrap's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    /// Requests in the engine.
    pub in_flight: u32,
    /// Context tokens in the engine.
    pub in_flight_tokens: u64,
    /// The token limit in force; `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_limit: Option<u64>,
    /// By class.
    pub classes: Vec<ClassReport>,
}

/// One class's part of a [`Report`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// Requests that arrived.
    pub offered: u64,
    /// Requests that completed.
    pub completed: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Cost served, in cost units.
    pub served_cost: f64,
    /// Requests waiting.
    pub queued: u32,
    /// Requests in the engine.
    pub in_flight: u32,
}
