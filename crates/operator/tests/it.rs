//! The operator from the outside: sidecars that connect, files that change, a real API server.

// Helpers of tests are tests; clippy only knows those that are marked.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/channel.rs"]
mod channel;
#[path = "it/client.rs"]
mod client;
#[path = "it/cluster.rs"]
mod cluster;
#[path = "it/files.rs"]
mod files;
#[path = "it/gate.rs"]
mod gate;
#[path = "it/in_cluster.rs"]
mod in_cluster;
#[path = "it/replicas.rs"]
mod replicas;
#[path = "it/rotating.rs"]
mod rotating;
#[path = "it/rotation.rs"]
mod rotation;
#[path = "it/webhook.rs"]
mod webhook;
