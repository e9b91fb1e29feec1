//! The launchers do what they promise; and Fairtide from end to end: the real programs under a real
//! API server, driven by kubectl. The latter needs `cargo build --workspace --bins` first.

#![allow(clippy::unwrap_used, clippy::panic, reason = "this is how tests fail")]

#[path = "it/apiserver.rs"]
mod apiserver;
#[path = "it/mistakes.rs"]
mod mistakes;
#[path = "it/outages.rs"]
mod outages;
#[path = "it/process.rs"]
mod process;
#[path = "it/scene.rs"]
mod scene;
#[path = "it/scripted_engine.rs"]
mod scripted_engine;
#[path = "it/traffic.rs"]
mod traffic;
