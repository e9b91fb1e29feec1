//! `fairtide-operator`: reads its flags, starts the operator, and ends it when told to.

use anyhow::Context;
use fairtide_operator::{
    args::{Args, Asked, AskedSource, Exit},
    run::{Operator, Source, StartError},
};
use fairtide_telemetry::{logs, termination};
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What `sysexits.h` calls a usage error.
const USAGE: u8 = 64;

/// Longer than a watch stays without a word. A connection that is dead and doesn't know it ends.
const READ_TIMEOUT: Duration = Duration::from_secs(330);

/// The value of `--kubeconfig` is no kubeconfig.
#[derive(Debug, thiserror::Error)]
#[error("--kubeconfig needs a kubeconfig file, not {}", .0.display())]
struct BadKubeconfig(PathBuf);

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
            let start = error.downcast_ref::<StartError>();
            if start.is_some_and(StartError::is_usage) || error.is::<BadKubeconfig>() {
                return ExitCode::from(USAGE);
            }
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
    let mut config = match kubeconfig {
        Some(path) => {
            let bad = || BadKubeconfig(path.to_owned());
            let file = Kubeconfig::read_from(path).with_context(bad)?;
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(bad)?
        }
        None => kube::Config::infer().await.context(
            "no API server: write --kubeconfig FILE, or --manifests DIR to work from files",
        )?,
    };
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    kube::Client::try_from(config).context("client of the API server")
}
