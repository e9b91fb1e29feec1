//! What is said to a command line that can't be obeyed: one line, and the exit code for it.

use clap::error::ErrorKind;
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
    eprintln!("kubectl-fairtide: {}", in_one_line(error));
    ExitCode::from(USAGE)
}

fn in_one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "say what to do; --help lists the subcommands".to_owned();
    }
    let message = error.to_string();
    let message = message.split("\n\nUsage:").next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let mut line = String::new();
    for part in message.lines().map(str::trim) {
        if part.is_empty() || part.starts_with("For more information") {
            continue;
        }
        if !line.is_empty() {
            line.push_str(if line.ends_with(':') { " " } else { "; " });
        }
        line.push_str(part);
    }
    line
}
