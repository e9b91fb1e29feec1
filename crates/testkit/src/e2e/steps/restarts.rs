//! One of the two containers ends, and the pod lives on.

use super::injection::settled;
use crate::{
    containers::{ENGINE, SIDECAR, address, is_ready, status},
    forward::{ADMIN, Forward},
    kubectl::kubectl,
    processes,
    scene::{AI, SOON, Scene},
    traffic,
};
use anyhow::ensure;
use fairtide_testkit::eventually;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::time::Instant;

/// Sent one after the other to a sidecar that has just been killed.
const REQUESTS: usize = 5;

const OPERATOR: &str = "deployment/fairtide-operator -n fairtide-system";

/// Waits until one container was restarted once more, the other never left, and the pod is ready.
async fn restarted(scene: &Scene, before: &Pod, name: &str, other: &str) -> anyhow::Result<Pod> {
    let what = format!("{name} was restarted and the pod is ready");
    let restarts = status(before, name)?.restart_count;
    let pod = eventually(&what, SOON, async || {
        let pod = scene.pods_of(AI).get(&before.name_any()).await?;
        let now = status(&pod, name)?;
        ensure!(now.restart_count > restarts, "no restart yet");
        ensure!(now.ready && is_ready(&pod), "not ready: {now:?}");
        Ok(pod)
    })
    .await?;
    ensure!(pod.uid() == before.uid(), "another pod took its place");
    let (was, is) = (status(before, other)?, status(&pod, other)?);
    ensure!(
        was.container_id == is.container_id,
        "{other} was restarted too: {is:?}"
    );
    Ok(pod)
}

/// The engine hangs: its liveness probe has it restarted, which isn't the end of the pod.
pub async fn engine(scene: &Scene) -> anyhow::Result<String> {
    let before = scene.a_pod().await?;
    let started = Instant::now();
    processes::engine(&before.name_any())?
        .signal("STOP")
        .await?;
    let pod = restarted(scene, &before, ENGINE, SIDECAR).await?;
    let took = started.elapsed().as_secs_f64();
    traffic::ask(address(&pod, 8000)?).await?;
    settled(scene).await?;
    Ok(format!(
        "a hung engine was restarted and the pod ready again after {took:.1} s; the sidecar ran on"
    ))
}

/// The process that serves is killed: the next one takes its place, and the kubelet needn't know.
pub async fn worker(scene: &Scene) -> anyhow::Result<String> {
    let pod = scene.a_pod().await?;
    let first = processes::sidecar(AI, &pod.name_any())?;
    let worker = processes::worker(first)?;
    worker.signal("KILL").await?;
    eventually("it is dead", SOON, async || {
        ensure!(!worker.is_alive());
        Ok(())
    })
    .await?;
    let killed = Instant::now();
    // None is turned away: whoever connects waits for the next one.
    for _ in 0..REQUESTS {
        traffic::ask(address(&pod, 8000)?).await?;
    }
    let took = killed.elapsed().as_secs_f64();
    let admin = Forward::open(&format!("pod/{}", pod.name_any()), ADMIN).await?;
    admin.shows("/policy/source", "channel").await?;
    let now = scene.pods_of(AI).get(&pod.name_any()).await?;
    for name in [SIDECAR, ENGINE] {
        let (was, is) = (status(&pod, name)?, status(&now, name)?);
        ensure!(was.restart_count == is.restart_count, "{is:?}");
        ensure!(was.container_id == is.container_id, "{is:?}");
    }
    Ok(format!(
        "{REQUESTS} requests at once after it were answered within {took:.1} s; no container was restarted"
    ))
}

/// The sidecar is killed while there is no operator: it comes back with the policy that it had.
pub async fn sidecar(scene: &Scene) -> anyhow::Result<String> {
    let before = scene.a_pod().await?;
    let to = format!("pod/{}", before.name_any());
    let version = {
        let admin = Forward::open(&to, ADMIN).await?;
        admin.state().await?["policy"]["version"].clone()
    };
    kubectl(&format!("scale {OPERATOR} --replicas=0")).await?;
    eventually("the operator is gone", SOON, async || {
        let pods = scene
            .pods_of("fairtide-system")
            .list(&Default::default())
            .await?;
        ensure!(pods.items.is_empty(), "{} pods", pods.items.len());
        Ok(())
    })
    .await?;
    let started = Instant::now();
    processes::sidecar(AI, &before.name_any())?
        .signal("KILL")
        .await?;
    let result = come_back(scene, &before, &to, &version).await;
    let took = started.elapsed().as_secs_f64();
    kubectl(&format!("scale {OPERATOR} --replicas=2")).await?;
    kubectl(&format!("rollout status {OPERATOR} --timeout=300s")).await?;
    result?;
    scene
        .condition("ftpool/llama", "Programmed", "True")
        .await?;
    Ok(format!(
        "without an operator: ready again after {took:.1} s with the policy kept, the engine ran on"
    ))
}

async fn come_back(
    scene: &Scene,
    before: &Pod,
    to: &str,
    version: &serde_json::Value,
) -> anyhow::Result<()> {
    let pod = restarted(scene, before, SIDECAR, ENGINE).await?;
    traffic::ask(address(&pod, 8000)?).await?;
    let admin = Forward::open(to, ADMIN).await?;
    let policy = admin.state().await?["policy"].clone();
    ensure!(policy["source"] == "kept", "{policy}");
    ensure!(policy["version"] == *version, "{policy}, not {version}");
    Ok(())
}
