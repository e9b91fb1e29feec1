//! The engine simulator.

pub mod model;
