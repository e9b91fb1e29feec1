//! The sidecar on real sockets, in front of an engine that the tests script.

#[path = "it/support.rs"]
mod support;

#[path = "it/answers.rs"]
mod answers;
#[path = "it/bodies.rs"]
mod bodies;
#[path = "it/channel.rs"]
mod channel;
#[path = "it/engine_faults.rs"]
mod engine_faults;
#[path = "it/leaving.rs"]
mod leaving;
#[path = "it/pod.rs"]
mod pod;
#[path = "it/policy_files.rs"]
mod policy_files;
#[path = "it/program.rs"]
mod program;
#[path = "it/refusals.rs"]
mod refusals;
