//! Command lines.

mod engine;
mod load;
mod vllm;

use crate::engine::Imitated;
use clap::{Parser, Subcommand, error::ErrorKind};
use fairtide_telemetry::{LogFormat, logs};
use std::{ffi::OsString, process::ExitCode};

/// The exit code for a command line that can't be obeyed (`EX_USAGE`).
const USAGE: u8 = 64;

#[derive(Parser, Debug)]
#[command(
    name = "fairtide-sim",
    version,
    about = "A simulated LLM engine, and load for it"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Serve a simulated vLLM, TGI or SGLang.
    Engine(engine::Engine),
    /// Offer load to engines or sidecars, and tell how it fared.
    Load(load::Load),
}

/// Runs the program: parses, acts, and says how it went. Under the name `vllm` it takes vLLM's
/// command line.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let arguments = match arguments.first() {
        Some(program) if vllm::is_meant(program) => vllm::translate(arguments),
        _ => Ok(arguments),
    };
    let arguments = match arguments.and_then(Arguments::try_parse_from) {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => {
            // Help or version was asked for.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            return refuse(&one_line(
                &error,
                "say what to do: engine, or load; --help tells more",
            ));
        }
    };
    let imitated = match &arguments.command {
        Command::Engine(engine) => match engine.imitated() {
            Ok(imitated) => imitated,
            Err(wrong) => return refuse(&wrong),
        },
        Command::Load(_) => Imitated::default(),
    };
    if let Err(error) = logs::init("warn", LogFormat::Auto) {
        return fail(&error.into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let done = match arguments.command {
        Command::Engine(engine) => runtime.block_on(engine.run(imitated)),
        Command::Load(load) => runtime.block_on(load.run()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn refuse(message: &str) -> ExitCode {
    eprintln!("fairtide-sim: {message}");
    ExitCode::from(USAGE)
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("fairtide-sim: {error:#}");
    ExitCode::FAILURE
}

/// clap's message on one line, without its usage text; `nothing` is what to say where the command
/// line says nothing.
pub fn one_line(error: &clap::Error, nothing: &str) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return nothing.to_owned();
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
