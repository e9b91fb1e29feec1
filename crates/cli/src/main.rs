//! `kubectl fairtide`: one module for each subcommand.

mod inject;
mod replay;
mod usage;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser, Debug)]
#[command(
    name = "kubectl-fairtide",
    version,
    about = "Tools for Fairtide's policies"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Put the sidecar into manifests, as the webhook would.
    Inject(inject::Inject),
    /// Replay traces in virtual time, under a policy and its rivals.
    Replay(Box<replay::Replay>),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage::refuse(&error),
    };
    let done = match arguments.command {
        Command::Inject(inject) => inject.run(),
        Command::Replay(replay) => replay.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kubectl-fairtide: {error:#}");
            ExitCode::FAILURE
        }
    }
}
