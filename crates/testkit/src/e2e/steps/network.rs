//! The ways by which traffic and scrapers reach a pod: as before it had a sidecar.

use crate::{
    containers::address,
    forward::{ADMIN, Forward},
    scene::{SOON, Scene},
    traffic,
};
use anyhow::{Context, ensure};
use fairtide_testkit::{eventually, http_get};
use http::StatusCode;
use kube::ResourceExt;
use std::collections::BTreeSet;

/// Enough that both pods get some.
const REQUESTS: usize = 20;

/// Through a Service, by each of its addresses.
pub async fn service(scene: &Scene, name: &str) -> anyhow::Result<String> {
    let addresses = scene.service(name).await?;
    for address in &addresses {
        // kube-proxy learns of a ready pod a moment after we do.
        eventually("the Service leads to an engine", SOON, async || {
            traffic::ask(*address).await
        })
        .await
        .with_context(|| address.to_string())?;
        for _ in 0..REQUESTS {
            traffic::ask(*address).await?;
        }
    }
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    Ok(format!(
        "{REQUESTS} requests answered through {}",
        addresses.join(" and through ")
    ))
}

/// A scraper that was told the engine's port still finds the engine's page, and the sidecar's own
/// is on the admin port.
pub async fn metrics(scene: &Scene) -> anyhow::Result<String> {
    let pod = scene.a_pod().await?;
    let mut names = BTreeSet::new();
    for (port, wanted) in [(8000, "vllm:num_requests_running"), (ADMIN, "fairtide_")] {
        let address = address(&pod, port)?.to_string();
        let (status, page) = http_get(&address, "/metrics").await?;
        let page = String::from_utf8_lossy(&page);
        ensure!(status == StatusCode::OK, "{address}: {status}");
        ensure!(page.contains(wanted), "no {wanted} at {address}: {page}");
        names.insert(address);
    }
    Ok("vLLM's page on the old port, the sidecar's own on the admin port".to_owned())
}

/// To the old port, and to the debug page that only the pod itself may see.
pub async fn port_forward(scene: &Scene) -> anyhow::Result<String> {
    let pod = scene.a_pod().await?;
    let name = pod.name_any();
    let engine = Forward::open(&format!("pod/{name}"), 8000).await?;
    traffic::ask(engine.address).await?;
    let service = Forward::open("service/by-name", 80).await?;
    traffic::ask(service.address).await?;
    let direct = http_get(&address(&pod, ADMIN)?.to_string(), "/debug/state").await?;
    ensure!(
        direct.0 == StatusCode::FORBIDDEN,
        "seen from outside: {}",
        direct.0
    );
    let admin = Forward::open(&format!("pod/{name}"), ADMIN).await?;
    let state = admin.state().await?;
    ensure!(
        state["policy"]["source"] == "channel",
        "{}",
        state["policy"]
    );
    ensure!(state["pod"]["reached"] == true, "{}", state["pod"]);
    Ok("to the pod, to the Service by the port's name, and to the debug page".to_owned())
}
