//! What the API accepts and refuses, in Rust, by CEL, and by a real API server.

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
