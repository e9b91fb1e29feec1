//! What is said to a command line that can't be obeyed: one line, and the exit code for it.

use fairtide_sim::cli::one_line;
use std::process::ExitCode;

/// `EX_USAGE`.
const USAGE: u8 = 64;

/// Prints help or version where they were asked for, else what to write instead.
pub fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe is no fault of ours.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "kubectl-fairtide: {}",
        one_line(error, "say what to do; --help lists the subcommands")
    );
    ExitCode::from(USAGE)
}
