//! Chores of the repository: generated files, and checks that no compiler makes.

mod crds;
mod generated;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Chores of the Fairtide repository")]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Write the custom resource definitions to crds/
    Crds {
        /// Only compare; fail where a file is stale
        #[arg(long)]
        check: bool,
    },
}

fn main() -> Result<()> {
    match Args::parse().chore {
        Chore::Crds { check } => generated::bring(crds::files()?, "crds", check),
    }
}
