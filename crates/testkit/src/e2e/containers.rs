//! What the kubelet says of a pod's containers.

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use std::net::{IpAddr, SocketAddr};

/// The sidecar's container.
pub const SIDECAR: &str = "fairtide-sidecar";
/// The engine's.
pub const ENGINE: &str = "vllm";

/// The status of a container, init containers included.
pub fn status<'a>(pod: &'a Pod, name: &str) -> anyhow::Result<&'a ContainerStatus> {
    let status = pod.status.as_ref().context("the pod has no status yet")?;
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let mut all = lists.into_iter().flatten().flatten();
    all.find(|one| one.name == name)
        .with_context(|| format!("{} has no status of container {name}", pod.name_any()))
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Where a port of the pod is.
pub fn address(pod: &Pod, port: u16) -> anyhow::Result<SocketAddr> {
    let addresses = addresses(pod, port)?;
    addresses.into_iter().next().context("no address")
}

/// The same by each of its addresses: one, or one of each kind.
pub fn addresses(pod: &Pod, port: u16) -> anyhow::Result<Vec<SocketAddr>> {
    let ips = pod.status.as_ref().and_then(|it| it.pod_ips.as_ref());
    let ips = ips.context("the pod has no address yet")?.iter();
    ips.map(|one| Ok(SocketAddr::new(one.ip.parse::<IpAddr>()?, port)))
        .collect()
}

/// Whether the sidecar is a native one: an init container that is started and goes on running.
pub fn check_injected(pod: &Pod) -> anyhow::Result<()> {
    let spec = pod.spec.as_ref().context("a pod has a spec")?;
    let mut init = spec.init_containers.iter().flatten();
    let sidecar = init
        .find(|one| one.name == SIDECAR)
        .with_context(|| format!("{} has no sidecar", pod.name_any()))?;
    ensure!(sidecar.restart_policy.as_deref() == Some("Always"));
    let status = status(pod, SIDECAR)?;
    ensure!(status.ready && status.started == Some(true), "{status:?}");
    Ok(())
}
