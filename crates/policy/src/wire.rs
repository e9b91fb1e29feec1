//! The messages of the channel: one JSON object a line, both ways, over one HTTP/2 stream
//! (`POST /v1/channel`) that the sidecar opens.
//!
//! ```text
//! sidecar → operator   hello, then ack or nack for each snapshot, trusting for each authorities,
//!                      report once a second
//! operator → sidecar   snapshot whenever the pod's policy changes, the first at once;
//!                      authorities at the beginning and whenever they change
//! ```
//!
//! Both ends pass over a message of a kind that they don't know. So a new kind needs no new
//! [`PROTOCOL_VERSION`], as long as nothing breaks when the other end says nothing to it.

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
    /// The certificate authorities to trust at each later connection, beside those that the
    /// sidecar was started with. They come before the first certificate of a new one is used.
    Authorities {
        /// [`PROTOCOL_VERSION`] of the sender.
        v: u32,
        /// Names this set of authorities.
        version: String,
        /// All of them, PEM; never a difference.
        pem: String,
    },
    /// The authorities are trusted, and will be after a restart of the sidecar.
    Trusting {
        /// [`PROTOCOL_VERSION`] of the sender.
        v: u32,
        /// The version of the authorities.
        version: String,
    },
    /// The pod's figures.
    Report {
        /// [`PROTOCOL_VERSION`] of the sender.
        v: u32,
        /// The figures.
        #[serde(flatten)]
        report: Report,
    },
    /// Of a kind that is not known here: a newer sender may say more.
    #[serde(other)]
    Unknown,
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
    /// The mode in force: `Enforce` or `Bypass`. A word, so that a reader takes also one that it
    /// doesn't know. `None`: an older sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Who set the mode: `pool`, or `annotation` of this one pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_source: Option<String>,
    /// Whether the pod wants traffic. `None`: an older sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Where the pod is on its way out: `serving`, `lame_duck`, `closing` or `drained`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Whether the engine answers on the pod's own addresses, so that clients can go around the
    /// sidecar. `None`: not known (yet).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bypassable: Option<bool>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_another_kind_is_read_as_one_that_is_not_known() {
        let newer = r#"{"type":"fromTheFuture","v":1,"some":{"thing":1}}"#;
        let read = serde_json::from_str::<Message>(newer);
        assert!(matches!(read, Ok(Message::Unknown)), "{read:?}");
        let broken = r#"{"type":"ack","v":1}"#;
        assert!(serde_json::from_str::<Message>(broken).is_err());
    }

    #[test]
    fn an_older_sidecars_report_can_be_read_and_a_newer_ones_by_older_readers() {
        let older = r#"{"type":"report","v":1,"inFlight":1,"inFlightTokens":2,"classes":[]}"#;
        let Ok(Message::Report { report, .. }) = serde_json::from_str(older) else {
            panic!("not read");
        };
        assert_eq!((report.bypassable, report.mode), (None, None));
        let newer = r#"{"type":"report","v":1,"inFlight":1,"inFlightTokens":2,"classes":[],
            "mode":"Observe","bypassable":true,"fromTheFuture":{"a":1}}"#;
        let Ok(Message::Report { report, .. }) = serde_json::from_str(newer) else {
            panic!("not read");
        };
        assert_eq!(report.mode.as_deref(), Some("Observe"));
        assert_eq!(report.bypassable, Some(true));
    }
}
