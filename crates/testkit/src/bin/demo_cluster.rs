//! `make demo-cluster`: the demo against a real kube-apiserver.
//!
//! The same load, figures and report as `make demo`; but the policy is in an API server and is
//! changed by `kubectl apply`, the operator has no rights but its own, and each sidecar shows the
//! token of its Pod. Only nodes are missing, so Pods are objects without containers, and their
//! engines and sidecars run as processes here.

#[path = "../demo/args.rs"]
mod args;
#[path = "../demo/exhibit.rs"]
mod exhibit;
#[path = "../demo_cluster/fleet.rs"]
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
const FOLDER: &str = "target/demo-cluster";

#[tokio::main]
async fn main() -> ExitCode {
    let asked = match args::read() {
        Ok(asked) => asked,
        Err(exit) => return exit,
    };
    match show::run(&asked).await {
        Ok(report) if asked.assert && !report.missed.is_empty() => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fairtide-demo-cluster: {error:#}");
            ExitCode::FAILURE
        }
    }
}
