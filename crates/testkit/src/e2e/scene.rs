//! What the steps share: the cluster, and where things are kept.

use crate::kubectl::kubectl;
use anyhow::{Context, ensure};
use fairtide_testkit::{eventually, repository};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde_json::Value;
use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

/// For whatever takes seconds on an idle machine.
pub const SOON: Duration = Duration::from_secs(120);

/// The namespace of the engines.
pub const AI: &str = "ai";

/// Of the pods in `engine.yaml`.
pub const ENGINES: &str = "app=vllm";

/// Of each thing that is printed after a failure.
const MOST_LINES: usize = 40;

/// See the module.
pub struct Scene {
    pub out: PathBuf,
    pub client: Client,
}

// === impl Scene ===

impl Scene {
    pub async fn new(out: PathBuf) -> anyhow::Result<Self> {
        let client = Client::try_default().await;
        let client = client.context("run by tests/e2e/run, inside the node")?;
        Ok(Self { out, client })
    }

    /// The path of one of the manifests of this test.
    pub fn manifest(&self, name: &str) -> String {
        let path = repository().join("tests/e2e").join(name);
        path.display().to_string()
    }

    pub fn pods_of(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The engines' pods that aren't on their way out, by name.
    pub async fn pods(&self, selector: &str) -> anyhow::Result<Vec<Pod>> {
        let params = ListParams::default().labels(selector);
        let mut pods = self.pods_of(AI).list(&params).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(ResourceExt::name_any);
        Ok(pods)
    }

    /// One of the engines' pods.
    pub async fn a_pod(&self) -> anyhow::Result<Pod> {
        let pods = self.pods(ENGINES).await?;
        pods.into_iter().next().context("no pod of the engines")
    }

    /// The addresses of a Service: one, or one of each kind.
    pub async fn service(&self, name: &str) -> anyhow::Result<Vec<SocketAddr>> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), AI);
        let spec = services.get(name).await?.spec;
        let ips = spec.and_then(|spec| spec.cluster_ips);
        let ips = ips.with_context(|| format!("Service {name} has no address"))?;
        let addresses = ips.iter().map(|ip| Ok(SocketAddr::new(ip.parse()?, 80)));
        addresses.collect()
    }

    /// Waits until a condition of an object has this status for its newest generation, and gives
    /// its message.
    pub async fn condition(
        &self,
        object: &str,
        condition: &str,
        status: &str,
    ) -> anyhow::Result<String> {
        let what = format!("{object} has {condition}={status}");
        eventually(&what, SOON, async || {
            let json = kubectl(&format!("get {object} -n {AI} -o json")).await?;
            let object: Value = serde_json::from_str(&json)?;
            let conditions = object["status"]["conditions"].as_array();
            let found = conditions
                .and_then(|all| all.iter().find(|one| one["type"] == condition))
                .with_context(|| format!("no {condition} in {}", object["status"]))?;
            let generation = &object["metadata"]["generation"];
            ensure!(found["status"] == status, "{found}");
            ensure!(found["observedGeneration"] == *generation, "{found}");
            Ok(found["message"].as_str().unwrap_or_default().to_owned())
        })
        .await
    }

    /// Prints what a machine that is gone afterwards would have told.
    pub async fn show(&self) {
        for line in [
            "get pods -A -o wide",
            "get events -A --sort-by=.metadata.creationTimestamp",
        ] {
            let text = kubectl(line).await;
            let text = text.unwrap_or_else(|error| format!("{error:#}"));
            let lines: Vec<_> = text.lines().collect();
            println!("kubectl {line}:");
            for line in lines.iter().skip(lines.len().saturating_sub(MOST_LINES)) {
                println!("  {line}");
            }
        }
    }

    /// Keeps the logs and the last state of all pods, for whoever wants to know why.
    pub async fn keep_logs(&self) {
        let folder = self.out.join("pods");
        let _ = fs::create_dir_all(&folder);
        for what in ["pods -o yaml", "events", "ftpool,ftclass -o yaml"] {
            let name = what.split(' ').next().unwrap_or_default();
            let text = kubectl(&format!("get {what} --all-namespaces")).await;
            let text = text.unwrap_or_else(|error| format!("{error:#}"));
            let _ = fs::write(self.out.join(format!("{name}.txt")), text);
        }
        let pods: Api<Pod> = Api::all(self.client.clone());
        let Ok(pods) = pods.list(&ListParams::default()).await else {
            return;
        };
        for pod in pods {
            let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
            for more in ["", " --previous"] {
                let line = format!(
                    "logs {name} -n {namespace} --all-containers --prefix --timestamps{more}"
                );
                if let Ok(text) = kubectl(&line).await {
                    let file = format!("{namespace}.{name}{}.log", more.replace(" --", "."));
                    let _ = fs::write(folder.join(file), text);
                }
            }
        }
    }
}
