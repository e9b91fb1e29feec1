//! Jobs end: without a sidecar where the namespace asked, and with one where the Job itself did.

use crate::{containers::SIDECAR, kubectl::kubectl, scene::Scene};
use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

const NAMESPACE: &str = "jobs";

async fn completed(scene: &Scene, job: &str) -> anyhow::Result<Pod> {
    kubectl(&format!("apply -f {}", scene.manifest("jobs.yaml"))).await?;
    kubectl(&format!(
        "wait --for=condition=Complete job/{job} -n {NAMESPACE} --timeout=300s"
    ))
    .await?;
    let params = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
    let pods = scene.pods_of(NAMESPACE).list(&params).await?.items;
    ensure!(pods.len() == 1, "{} pods of {job}", pods.len());
    pods.into_iter().next().context("a pod")
}

fn has_sidecar(pod: &Pod) -> bool {
    let init = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.init_containers.as_ref());
    init.is_some_and(|init| init.iter().any(|one| one.name == SIDECAR))
}

/// The namespace asks for sidecars; that isn't meant for Jobs.
pub async fn left_alone(scene: &Scene) -> anyhow::Result<String> {
    let pod = completed(scene, "plain").await?;
    ensure!(!has_sidecar(&pod), "it was given a sidecar");
    Ok("complete, and without a sidecar".to_owned())
}

/// A Job that asks by its own label, with an engine of its own.
pub async fn injected(scene: &Scene) -> anyhow::Result<String> {
    let pod = completed(scene, "asking").await?;
    ensure!(has_sidecar(&pod), "it has no sidecar");
    let log = kubectl(&format!("logs job/asking -n {NAMESPACE} -c client")).await?;
    let line = log.lines().find(|line| line.starts_with("evals "));
    let cells: Vec<&str> = line.context(log.clone())?.split_whitespace().collect();
    // class, offered, completed, refused, cancelled, failed
    ensure!(
        cells.get(1..6) == Some(&["10", "10", "0", "0", "0"]),
        "{log}"
    );
    Ok("complete with a sidecar; 10 of 10 requests went through it".to_owned())
}
