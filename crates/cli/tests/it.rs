//! The program from outside.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/inject.rs"]
mod inject;
#[path = "it/replay.rs"]
mod replay;
#[path = "it/replay_live.rs"]
mod replay_live;
