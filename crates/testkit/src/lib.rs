//! What tests and the demos need around the programs: a real API server, processes that don't
//! outlive their test, ports, waiting. For development only; nothing that ships depends on it.

mod apiserver;
mod client;
mod figures;
mod installation;
mod ports;
mod process;
mod programs;
mod scripted_engine;
mod temp_dir;
mod wait;

pub use apiserver::{ApiServer, BoundPod};
pub use client::{Answer, http_get, http_post};
pub use figures::figures;
pub use installation::{Installation, Sidecar, SidecarAsked, repository};
pub use ports::free_port;
pub use process::{Process, Spawn, binary, children};
pub use programs::control_plane_programs;
pub use scripted_engine::{Call, ScriptedEngine, Streaming};
pub use temp_dir::TempDir;
pub use wait::eventually;
