//! The simulator from outside: its HTTP face by real sockets, and load against it.

#[path = "it/engine.rs"]
mod engine;
#[path = "it/support.rs"]
mod support;
