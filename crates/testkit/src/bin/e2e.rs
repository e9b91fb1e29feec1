//! `make e2e`: Fairtide on a real node, from `kubectl apply` to the last stream of a deleted pod.
//!
//! Runs inside the node's namespaces, where pods and Services can be reached and the processes in
//! the pods be seen (`tests/cluster/node exec`). Each step tells what it saw; the report is
//! `report.json`. A step that later ones build on ends the run when it fails.

#[path = "../e2e/containers.rs"]
mod containers;
#[path = "../e2e/forward.rs"]
mod forward;
#[path = "../e2e/kubectl.rs"]
mod kubectl;
#[path = "../e2e/processes.rs"]
mod processes;
#[path = "../e2e/report.rs"]
mod report;
#[path = "../e2e/scene.rs"]
mod scene;
#[path = "../e2e/steps/mod.rs"]
mod steps;
#[path = "../e2e/traffic.rs"]
mod traffic;

use clap::Parser;
use report::Report;
use scene::Scene;
use std::{path::PathBuf, process::ExitCode};

/// Tries Fairtide on a real node.
#[derive(Debug, Parser)]
#[command(name = "fairtide-e2e")]
struct Args {
    /// Folder of the report and the logs.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Args { out } = Args::parse();
    match run(out).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fairtide-e2e: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all steps passed.
async fn run(out: PathBuf) -> anyhow::Result<bool> {
    let mut report = Report::new(&out);
    let mut scene = Scene::new(out).await?;
    steps::all(&mut scene, &mut report).await;
    scene.keep_logs().await;
    let passed = report.write()?;
    if !passed {
        scene.show().await;
    }
    Ok(passed)
}
