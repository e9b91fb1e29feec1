//! `fairtide-sim`: see `fairtide_sim::cli`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    fairtide_sim::cli::run(std::env::args_os())
}
