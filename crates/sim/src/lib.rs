//! A simulated engine, and load for it: Fairtide can be shown and tested without a GPU.

pub mod cli;
pub mod engine;
pub mod load;
pub mod model;
pub mod replay;
pub mod report;

pub use fairtide_scheduler::Settings;
