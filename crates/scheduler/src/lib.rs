//! The admission rules of Fairtide, and nothing else: no clock, no I/O, no randomness.
//!
//! A [`Scheduler`] is told what happens (a request arrives, tokens stream, an answer ends, the
//! policy changes) together with the time, and answers what is to be done as data. The sidecar,
//! the replay tool and the tests drive the same code. Time is a [`std::time::Duration`] since an
//! origin of the owner's choice, and never runs backwards.

#![deny(missing_docs)]

mod bucket;
mod class;
mod cost;
mod decayed;
mod headroom;
mod id_hash;
mod outcome;
mod outputs;
mod request;
mod scheduler;
mod settings;
mod snapshot;
mod tenants;

pub use outcome::{Outcome, Reason};
pub use request::{Decision, Refusal, Request, RequestId, Tokens};
pub use scheduler::{Charge, Scheduler};
pub use settings::{
    BucketSettings, BucketUnit, ClassSettings, EngineFacts, Limit, QueueSettings, Settings, Tier,
};
pub use snapshot::{ClassSnapshot, Snapshot};
