//! What is said to running sidecars: by an edit of the policy, and by an annotation of one pod.

use crate::{
    forward::{ADMIN, Forward},
    kubectl::kubectl,
    scene::{AI, ENGINES, SOON, Scene},
};
use anyhow::{Context, ensure};
use fairtide_testkit::eventually;
use kube::ResourceExt;
use std::time::Duration;
use tokio::time::Instant;

/// How often an edit is looked for: well below what is measured.
const GLANCE: Duration = Duration::from_millis(5);

/// The debug pages of all sidecars.
async fn sidecars(scene: &Scene) -> anyhow::Result<Vec<Forward>> {
    let mut sidecars = Vec::new();
    for pod in scene.pods(ENGINES).await? {
        sidecars.push(Forward::open(&format!("pod/{}", pod.name_any()), ADMIN).await?);
    }
    Ok(sidecars)
}

/// `kubectl apply` of a class reaches each sidecar, and the class says so.
pub async fn edit(scene: &Scene) -> anyhow::Result<String> {
    let sidecars = sidecars(scene).await?;
    let file = scene.out.join("chat.yaml");
    std::fs::write(
        &file,
        "apiVersion: traffic.fairtide.dev/v1alpha1\nkind: TrafficClass\n\
         metadata: {name: chat, namespace: ai}\n\
         spec: {poolRefs: [{name: llama}], tier: Interactive, weight: 7}\n",
    )?;
    kubectl(&format!("apply -f {}", file.display())).await?;
    let applied = Instant::now();
    for sidecar in &sidecars {
        let deadline = applied + SOON;
        loop {
            let state = sidecar.state().await?;
            let classes = state["policy"]["document"]["classes"].as_array();
            let mut classes = classes.into_iter().flatten();
            let chat = classes.find(|class| class["name"] == "chat");
            if chat.context("no class chat")?["weight"] == 7 {
                break;
            }
            ensure!(
                Instant::now() < deadline,
                "not in force: {}",
                state["policy"]
            );
            tokio::time::sleep(GLANCE).await;
        }
    }
    let took = applied.elapsed().as_millis();
    scene
        .condition("ftclass/chat", "Programmed", "True")
        .await?;
    Ok(format!(
        "in force in {} sidecars {took} ms after kubectl apply",
        sidecars.len()
    ))
}

/// The annotation takes one pod out of the rules, without the operator, and puts it back.
pub async fn bypass(scene: &Scene) -> anyhow::Result<String> {
    let pods = scene.pods(ENGINES).await?;
    let sidecars = sidecars(scene).await?;
    let (pod, others) = pods.split_first().context("no pod")?;
    let (sidecar, other) = sidecars.split_first().context("no sidecar")?;
    let name = pod.name_any();
    kubectl(&format!(
        "annotate pod {name} -n {AI} fairtide.dev/mode=Bypass"
    ))
    .await?;
    let started = Instant::now();
    sidecar.shows("/pod/mode", "Bypass").await?;
    let took = started.elapsed().as_secs_f64();
    sidecar.shows("/pod/modeSource", "annotation").await?;
    for (pod, other) in others.iter().zip(other) {
        let mode = &other.state().await?["pod"]["mode"];
        ensure!(*mode == "Enforce", "{} is in {mode} too", pod.name_any());
    }
    kubectl(&format!("annotate pod {name} -n {AI} fairtide.dev/mode-")).await?;
    let started = Instant::now();
    sidecar.shows("/pod/mode", "Enforce").await?;
    let back = started.elapsed().as_secs_f64();
    eventually("the pool decides again", SOON, async || {
        let state = sidecar.state().await?;
        ensure!(state["pod"]["modeSource"] == "pool", "{}", state["pod"]);
        Ok(())
    })
    .await?;
    Ok(format!(
        "obeyed after {took:.1} s, and taken back after {back:.1} s"
    ))
}
