//! The simulator from outside: its HTTP face by real sockets, and load against it.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/cli.rs"]
mod cli;
#[path = "it/engine.rs"]
mod engine;
#[path = "it/faces.rs"]
mod faces;
#[path = "it/load.rs"]
mod load;
#[path = "it/replay.rs"]
mod replay;
#[path = "it/same.rs"]
mod same;
#[path = "it/support.rs"]
mod support;
