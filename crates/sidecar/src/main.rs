//! The program: flags, logs, runtime, until told to go.

use fairtide_sidecar::{
    Asked, Flags, Listeners, Role, Run, Sidecar, StartError, die_with_supervisor, supervise,
};
use std::{error::Error, process::ExitCode};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `EX_USAGE`, by which scripts tell a wrong flag from a failure.
const USAGE: u8 = 64;

/// An exit code, and what is said about it.
type Failure = (u8, Box<dyn Error>);

fn main() -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    let ended = match Flags::ask(std::env::args_os(), variable) {
        Ok(Asked::Run(run)) => start(*run),
        Ok(Asked::Mark(marker)) => marker.mark().map(|()| 0).map_err(failed),
        Ok(Asked::Text(text)) => {
            print!("{text}");
            Ok(0)
        }
        Err(error) => Err((USAGE, error.into())),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err((code, error)) => {
            eprintln!("fairtide-sidecar: {error}");
            fairtide_sidecar::report_to_kubelet(&error.to_string());
            ExitCode::from(code)
        }
    }
}

fn start(run: Run) -> Result<u8, Failure> {
    fairtide_telemetry::logs::init(&run.log_level, run.log_format)
        .map_err(|error| (USAGE, error.into()))?;
    let listeners = match run.role {
        Role::Worker => {
            die_with_supervisor().map_err(failed)?;
            Listeners::inherited(&run.config).map_err(failed)?
        }
        Role::Alone | Role::Supervisor => Listeners::open(&run.config).map_err(failed)?,
    };
    if run.role == Role::Supervisor {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        return runtime.map_err(failed)?.block_on(async {
            let told_to_go = fairtide_telemetry::termination().map_err(failed)?;
            supervise(listeners, told_to_go).await.map_err(failed)
        });
    }
    let runtime = tokio::runtime::Runtime::new().map_err(failed)?;
    runtime.block_on(serve(listeners, run))
}

async fn serve(listeners: Listeners, run: Run) -> Result<u8, Failure> {
    let told_to_go = fairtide_telemetry::termination().map_err(failed)?;
    let sidecar = match Sidecar::start_on(listeners, run.config).await {
        Ok(sidecar) => sidecar,
        Err(error @ StartError::Listen { .. }) => return Err(failed(error)),
        Err(error) => return Err((USAGE, error.into())),
    };
    let ended = sidecar.run(told_to_go.cancelled_owned()).await;
    ended.map(|()| 0).map_err(failed)
}

fn failed(error: impl Error + 'static) -> Failure {
    (1, Box::new(error))
}
