//! The operator: reads pools, classes and pods, works out one policy per pod, pushes it to the
//! sidecars and says in status how far that is.
//!
//! ```text
//! source → intake → world (resolve) → fleet → channel → sidecars
//!                                       ↓ answers
//!                            status ← assess ← world
//! ```
//! Every replica watches, works out and answers the webhook; the holder of the lease alone pushes
//! and writes.

mod admin;
pub mod args;
mod causes;
pub mod channel;
pub mod clock;
pub mod fleet;
pub mod intake;
pub mod lease;
pub mod metrics;
pub mod run;
pub mod source;
pub mod status;
pub mod webhook;
pub mod world;
