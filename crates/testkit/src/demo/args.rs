//! The command line.

use crate::exhibit::Exhibit;
use clap::Parser;
use std::process::ExitCode;

/// FIFO against Fairtide on simulated engines, without a cluster.
#[derive(Debug, Parser)]
#[command(name = "fairtide-demo")]
pub struct Args {
    /// demo: two engines, chat beside two batch jobs, and a policy edit. burst: one engine, 200
    /// batch requests at once; takes three minutes.
    #[arg(long, value_name = "NAME", default_value = "demo", value_parser = Exhibit::named)]
    pub scenario: Exhibit,
    /// The same seed offers the same requests at the same times.
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// A shorter window, for checks: figures are rougher.
    #[arg(long)]
    pub short: bool,
    /// Exit with 1 when a figure misses its target.
    #[arg(long)]
    pub assert: bool,
}

/// What the command line asks for, or how to exit instead.
pub fn read() -> Result<Args, ExitCode> {
    Args::try_parse().map_err(|error| {
        let _ = error.print();
        match error.use_stderr() {
            true => ExitCode::from(64),
            false => ExitCode::SUCCESS,
        }
    })
}
