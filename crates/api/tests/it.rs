//! What the API accepts and refuses, in Rust, by CEL, and by a real API server.

// Builders of scenes are tests, which clippy can't see.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/objects.rs"]
mod objects;
#[path = "it/parse.rs"]
mod parse;
#[path = "it/rules.rs"]
mod rules;
#[path = "it/schema.rs"]
mod schema;
#[path = "it/server.rs"]
mod server;
