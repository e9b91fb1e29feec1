//! What the webhook makes of a pod, seen on the node.

use crate::{
    containers::{ENGINE, SIDECAR, check_injected, is_ready, status},
    kubectl::kubectl,
    processes,
    scene::{AI, ENGINES, SOON, Scene},
};
use anyhow::{Context, bail, ensure};
use fairtide_testkit::eventually;
use k8s_openapi::jiff::Timestamp;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::Value;
use std::time::{Duration, SystemTime};

/// From the start of the container to the moment at which it serves.
const START: Duration = Duration::from_secs(1);

const TRIES: u32 = 3;

/// A Deployment of two pods comes up with sidecars, and their operator is heard.
pub async fn injected(scene: &Scene) -> anyhow::Result<String> {
    for file in ["policy.yaml", "engine.yaml"] {
        kubectl(&format!("apply -f {}", scene.manifest(file))).await?;
    }
    kubectl(&format!(
        "rollout status deployment/vllm -n {AI} --timeout=300s"
    ))
    .await?;
    let pods = scene.pods(ENGINES).await?;
    ensure!(pods.len() == 2, "{} pods", pods.len());
    pods.iter().try_for_each(check_injected)?;
    // Each sidecar has found the operator by the name of its Service.
    scene
        .condition("ftpool/llama", "Programmed", "True")
        .await?;
    scene.condition("ftpool/llama", "Injected", "True").await?;
    Ok("2 pods of a restricted namespace have a native sidecar and obey the pool".to_owned())
}

/// A new sidecar serves within a second. A busy machine may miss that; the best of a few counts.
pub async fn started_fast(scene: &Scene) -> anyhow::Result<String> {
    let mut figures = String::new();
    for _ in 0..TRIES {
        let (serving, kubelet) = start(scene).await?;
        figures = format!(
            "{} ms from the container's start to serving; the kubelet calls it started after {} ms",
            serving.as_millis(),
            kubelet.as_millis()
        );
        if serving < START {
            return Ok(figures);
        }
    }
    bail!("{figures}")
}

/// Replaces a pod. From the start of its sidecar's container: when it served, and when the kubelet
/// said so.
async fn start(scene: &Scene) -> anyhow::Result<(Duration, Duration)> {
    let pods = scene.pods(ENGINES).await?;
    let before: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
    let old = before.first().context("no pod of the engines")?;
    // At once: how a pod ends is another step.
    let now = DeleteParams::default().grace_period(0);
    scene.pods_of(AI).delete(old, &now).await?;
    let (pod, seen) = eventually("the kubelet calls the sidecar started", SOON, async || {
        let pods = scene.pods(ENGINES).await?;
        let mut pods = pods.into_iter();
        let pod = pods.find(|pod| !before.contains(&pod.name_any()));
        let pod = pod.context("no new pod")?;
        ensure!(status(&pod, SIDECAR)?.started == Some(true), "not yet");
        Ok((pod.name_any(), SystemTime::now()))
    })
    .await?;
    let started = processes::sidecar(AI, &pod)?.started_at()?;
    let serving = logged(&pod, "serving").await?;
    settled(scene).await?;
    // A process is dated to a hundredth of a second, so the difference may be less than none.
    let serving = serving.duration_since(started).unwrap_or_default();
    Ok((serving, seen.duration_since(started)?))
}

/// The sidecar serves before the engine is started.
pub async fn start_order(scene: &Scene) -> anyhow::Result<String> {
    let mut notes = Vec::new();
    for pod in scene.pods(ENGINES).await? {
        let name = pod.name_any();
        let serving = logged(&name, "serving").await?;
        let engine = processes::engine(&name)?.started_at()?;
        let before = engine.duration_since(serving).with_context(|| {
            format!("the engine of {name} was started before its sidecar served")
        })?;
        notes.push(format!("{} ms", before.as_millis()));
    }
    Ok(format!(
        "sidecars served {} before their engines started",
        notes.join(" and ")
    ))
}

/// The sidecar is nobody, and can do nothing but serve.
pub async fn confined(scene: &Scene) -> anyhow::Result<String> {
    let pod = scene.a_pod().await?.name_any();
    let sidecar = processes::sidecar(AI, &pod)?;
    for field in ["Uid", "Gid"] {
        let value = sidecar.field(field)?;
        let mut ids = value.split_whitespace();
        ensure!(ids.all(|id| id == "65532"), "{field} {value}");
    }
    for (field, wanted) in [
        ("CapEff", "0000000000000000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ] {
        let value = sidecar.field(field)?;
        ensure!(value == wanted, "{field} is {value}");
    }
    ensure!(sidecar.has_read_only_root()?, "its root can be written");
    Ok("uid and gid 65532, no capability, no new privileges, seccomp, read-only root".to_owned())
}

/// When a line with this message was logged first.
async fn logged(pod: &str, message: &str) -> anyhow::Result<SystemTime> {
    let log = kubectl(&format!("logs {pod} -n {AI} -c {SIDECAR}")).await?;
    let mut lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = lines.find(|line| line["message"] == message);
    let line = line.with_context(|| format!("{pod} hasn't logged {message:?}: {log}"))?;
    let at: Timestamp = line["timestamp"].as_str().unwrap_or_default().parse()?;
    Ok(at.into())
}

/// Waits until all pods of the engines are ready, and the engine of each runs.
pub async fn settled(scene: &Scene) -> anyhow::Result<()> {
    eventually("both pods of the engines are ready", SOON, async || {
        let pods = scene.pods(ENGINES).await?;
        ensure!(pods.len() == 2, "{} pods", pods.len());
        for pod in &pods {
            ensure!(is_ready(pod), "{} isn't ready", pod.name_any());
            ensure!(status(pod, ENGINE)?.ready, "the engine isn't");
        }
        Ok(())
    })
    .await
}
