//! What follows from objects, and what users are told about them.

// Builders of scenes are tests, which clippy can't see.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/classes.rs"]
mod classes;
#[path = "it/conflicts.rs"]
mod conflicts;
#[path = "it/examples.rs"]
mod examples;
#[path = "it/laws.rs"]
mod laws;
#[path = "it/manifests.rs"]
mod manifests;
#[path = "it/pods.rs"]
mod pods;
#[path = "it/pools.rs"]
mod pools;
#[path = "it/scene.rs"]
mod scene;
#[path = "it/shares.rs"]
mod shares;
