//! Tests against real processes and a real API server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "this is how tests fail")]

#[path = "it/apiserver.rs"]
mod apiserver;
#[path = "it/process.rs"]
mod process;
#[path = "it/scripted_engine.rs"]
mod scripted_engine;
