//! From an empty cluster to an operator that answers.

use crate::{
    containers::{addresses, is_ready},
    kubectl::kubectl,
    scene::{AI, SOON, Scene},
};
use anyhow::ensure;
use fairtide_testkit::{eventually, http_get, repository};
use http::StatusCode;

const SYSTEM: &str = "fairtide-system";

/// The operator's admin port.
const ADMIN: u16 = 8080;

/// A pod that asks for a sidecar before there is anybody to put it in.
pub async fn older_pod(scene: &Scene) -> anyhow::Result<String> {
    for file in ["namespaces.yaml", "older.yaml"] {
        kubectl(&format!("apply -f {}", scene.manifest(file))).await?;
    }
    kubectl(&format!(
        "rollout status deployment/older -n {AI} --timeout=300s"
    ))
    .await?;
    Ok("a pod runs that is older than Fairtide".to_owned())
}

/// By the manifests alone, as docs/install.md says.
pub async fn operator(scene: &Scene) -> anyhow::Result<String> {
    let manifests = repository().join("manifests");
    kubectl(&format!("apply -f {}", manifests.display())).await?;
    kubectl(&format!(
        "rollout status deployment/fairtide-operator -n {SYSTEM} --timeout=300s"
    ))
    .await?;
    kubectl("wait --for=condition=Established crd --all --timeout=300s").await?;
    let pods = scene.pods_of(SYSTEM).list(&Default::default()).await?.items;
    ensure!(pods.len() == 2, "{} pods of the operator", pods.len());
    ensure!(pods.iter().all(is_ready), "not all of them are ready");
    for pod in &pods {
        for address in addresses(pod, ADMIN)? {
            let (status, _) = http_get(&address.to_string(), "/readyz").await?;
            ensure!(status == StatusCode::OK, "{status} at {address}");
        }
    }
    let what = "the API server knows whom to trust at the webhook";
    eventually(what, SOON, async || {
        let path = "{.webhooks[*].clientConfig.caBundle}";
        let line = format!("get mutatingwebhookconfiguration fairtide -o jsonpath={path}");
        let bundles = kubectl(&line).await?;
        ensure!(bundles.split(' ').count() == 2, "{bundles:?}");
        Ok(())
    })
    .await?;
    let namespace = kubectl(&format!("get namespace {SYSTEM} -o yaml")).await?;
    let restricted = "pod-security.kubernetes.io/enforce: restricted";
    ensure!(
        namespace.contains(restricted),
        "its namespace isn't restricted"
    );
    Ok("2 replicas ready, in a restricted namespace, at all their addresses".to_owned())
}
