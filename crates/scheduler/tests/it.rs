//! The admission rules, as a user of the scheduler meets them.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/buckets.rs"]
mod buckets;
#[path = "it/laws.rs"]
mod laws;
#[path = "it/order.rs"]
mod order;
#[path = "it/policy_change.rs"]
mod policy_change;
#[path = "it/ports.rs"]
mod ports;
#[path = "it/queues.rs"]
mod queues;
#[path = "it/scene.rs"]
mod scene;
#[path = "it/shares.rs"]
mod shares;
