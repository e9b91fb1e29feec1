//! A pod that is older than the operator goes around every rule: somebody must be told.

use crate::{
    containers::check_injected,
    kubectl::kubectl,
    scene::{AI, SOON, Scene},
};
use anyhow::{Context, ensure};
use fairtide_testkit::eventually;

/// Its pool says so, with the command that rolls it; and the command does.
pub async fn reported(scene: &Scene) -> anyhow::Result<String> {
    kubectl(&format!("apply -f {}", scene.manifest("older-pool.yaml"))).await?;
    let message = scene.condition("ftpool/older", "Injected", "False").await?;
    let (_, command) = message.split_once("roll: ").context(message.clone())?;
    let arguments = command.strip_prefix("kubectl ").context(message.clone())?;
    let wanted = format!("rollout restart deployment/older -n {AI}");
    ensure!(arguments == wanted, "{message}");
    kubectl(arguments).await?;
    kubectl(&format!(
        "rollout status deployment/older -n {AI} --timeout=300s"
    ))
    .await?;
    scene.condition("ftpool/older", "Injected", "True").await?;
    eventually("its pod has a sidecar", SOON, async || {
        let pods = scene.pods("app=older").await?;
        ensure!(pods.len() == 1, "{} pods", pods.len());
        pods.iter().try_for_each(check_injected)
    })
    .await?;
    Ok(message)
}
