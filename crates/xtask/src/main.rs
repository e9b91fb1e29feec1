//! Chores of the repository: generated files, and checks that no compiler makes.

mod check;
mod crds;
mod docs;
mod generated;
mod images;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

#[derive(Parser)]
#[command(name = "xtask", about = "Chores of the Fairtide repository")]
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
    /// Write the reference pages to docs/reference/
    Docs {
        /// Only compare; fail where a file is stale
        #[arg(long)]
        check: bool,
    },
    /// Check which crate uses which, licences, crates that must not come in, and sizes of files
    Check,
    /// Write container images (`make images` builds what goes into them)
    Images {
        /// Folder of the static programs
        #[arg(long)]
        programs: PathBuf,
        /// Folder for the archives
        #[arg(long)]
        out: PathBuf,
    },
}

fn main() -> Result<()> {
    match Args::parse().chore {
        Chore::Crds { check } => generated::bring("crds", crds::files()?, check),
        Chore::Docs { check } => generated::bring("docs", docs::files()?, check),
        Chore::Check => check::run(),
        Chore::Images { programs, out } => images::build(&programs, &out),
    }
}
