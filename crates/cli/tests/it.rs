//! The program from outside.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/replay.rs"]
mod replay;
