//! Traces replayed in virtual time: what a policy, and its rivals, would have made of real load.
//!
//! Rows of a trace ([`trace`]) become requests of classes ([`rules`]); a balancer gives each to one
//! of several pods, and each pod is a [`front`] before the engine model. Nothing here reads a
//! clock, and all chance comes from the seed: the same input gives the same bytes.

mod arrivals;
mod contestant;
mod front;
mod limiter;
pub mod live;
mod prefix_cache;
mod rules;
mod run;
mod tally;
mod trace;

pub use arrivals::{Arrival, Source, SourceError};
pub use contestant::Contestant;
pub use rules::{Rules, RulesError};
pub use run::{Balancer, Setup, run};
pub use trace::{Format, Row, Trace, TraceError};
