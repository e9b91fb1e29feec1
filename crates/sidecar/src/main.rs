//! The program: flags, logs, runtime, until told to go.

use fairtide_sidecar::{Asked, Flags, Sidecar, StartError};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `EX_USAGE`, by which scripts tell a wrong flag from a failure.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    let run = match Flags::ask(std::env::args_os(), variable) {
        Ok(Asked::Run(run)) => *run,
        Ok(Asked::Mark(marker)) => {
            return match marker.mark() {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(1, &error),
            };
        }
        Ok(Asked::Text(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(USAGE, &error),
    };
    if let Err(error) = fairtide_telemetry::logs::init(&run.log_level, run.log_format) {
        return fail(USAGE, &error);
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(1, &error),
    };
    runtime.block_on(async {
        let told_to_go = match fairtide_telemetry::termination() {
            Ok(token) => token,
            Err(error) => return fail(1, &error),
        };
        let sidecar = match Sidecar::start(run.config).await {
            Ok(sidecar) => sidecar,
            Err(error @ StartError::Listen { .. }) => return fail(1, &error),
            Err(error) => return fail(USAGE, &error),
        };
        match sidecar.run(told_to_go.cancelled_owned()).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error),
        }
    })
}

fn fail(code: u8, error: &dyn std::error::Error) -> ExitCode {
    eprintln!("fairtide-sidecar: {error}");
    fairtide_sidecar::report_to_kubelet(&error.to_string());
    ExitCode::from(code)
}
