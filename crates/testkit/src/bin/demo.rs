//! `make demo`: what Fairtide does, shown on simulated engines in a minute and a half.
//!
//! Operator, sidecars and engines are the real programs, as processes on loopback; only the GPUs
//! are simulated. The same load, request by request, is offered twice: once with the pool in
//! `Bypass`, where the engines serve first come, first served behind the same sidecars, and once
//! under the policy. Then a policy file is edited while the load goes on.

#[path = "../demo/args.rs"]
mod args;
#[path = "../demo/exhibit.rs"]
mod exhibit;
#[path = "../demo/fleet.rs"]
mod fleet;
#[path = "../demo/policy.rs"]
mod policy;
#[path = "../demo/report.rs"]
mod report;
#[path = "../demo/show.rs"]
mod show;
#[path = "../demo/table.rs"]
mod table;

use std::process::ExitCode;

/// Where report, logs and policy files go.
const FOLDER: &str = "target/demo";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let asked = match args::read() {
        Ok(asked) => asked,
        Err(exit) => return exit,
    };
    match show::run(&asked).await {
        Ok(report) if asked.assert && !report.missed.is_empty() => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fairtide-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}
