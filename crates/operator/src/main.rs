//! `fairtide-operator`: reads its flags, starts the operator, and ends it when told to.

use anyhow::Context;
use fairtide_operator::{
    args::{Args, Asked, AskedSource, Exit},
    run::{Operator, Source},
};
use fairtide_telemetry::{logs, termination};
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::{path::Path, process::ExitCode};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What `sysexits.h` calls a usage error.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let asked = match Args::read(std::env::args_os()) {
        Ok(asked) => asked,
        Err(Exit::Told(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(Exit::Usage(line)) => {
            eprintln!("fairtide-operator: {line}");
            return ExitCode::from(USAGE);
        }
    };
    if let Err(error) = logs::init(&asked.log_level, asked.log_format) {
        eprintln!("fairtide-operator: {error}");
        return ExitCode::from(USAGE);
    }
    match run(asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fairtide-operator: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(asked: Asked) -> anyhow::Result<()> {
    let told_to_go = termination().context("signals")?;
    let source = match asked.source {
        AskedSource::Files(files) => Source::Files(files),
        AskedSource::Cluster(kubeconfig) => Source::Cluster(client(kubeconfig.as_deref()).await?),
    };
    let operator = Operator::start(source, asked.options).await?;
    told_to_go.cancelled().await;
    operator.stop().await;
    Ok(())
}

async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<kube::Client> {
    // Both our TLS and the client's are rustls on ring; it must be said once.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("--kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("--kubeconfig {}", path.display()))?
        }
        None => kube::Config::infer().await.context(
            "no API server: write --kubeconfig FILE, or --manifests DIR to work from files",
        )?,
    };
    kube::Client::try_from(config).context("client of the API server")
}
