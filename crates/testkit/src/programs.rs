//! Where the programs of the Kubernetes control plane are.

use anyhow::{Context, ensure};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tokio::sync::OnceCell;

/// The folder that holds etcd, kube-apiserver and kubectl: `KUBEBUILDER_ASSETS`, else what
/// `tests/cluster/build` builds, which takes minutes the first time on a machine.
pub async fn control_plane_programs() -> anyhow::Result<&'static Path> {
    static FOLDER: OnceCell<PathBuf> = OnceCell::const_new();
    let folder = FOLDER
        .get_or_try_init(async || tokio::task::spawn_blocking(build).await?)
        .await?;
    Ok(folder)
}

fn build() -> anyhow::Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cluster/build");
    // Its messages go to the terminal as they come: the build is long.
    let output = Command::new(&script)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("run {}", script.display()))?;
    ensure!(
        output.status.success(),
        "{} failed ({}): what it wants is said above",
        script.display(),
        output.status
    );
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}
