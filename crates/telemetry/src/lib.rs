//! What every Fairtide process shows of itself: logs, metrics, probes, and how it is told to go.

#![deny(missing_docs)]

pub mod admin;
mod health;
pub mod logs;
pub mod metrics;
mod signals;

pub use health::Health;
pub use logs::LogFormat;
pub use signals::termination;
