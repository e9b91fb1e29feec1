//! Fairtide as it is in a cluster: its kinds and rights applied, the operator running under its
//! own ServiceAccount, and sidecars that hold their pods' tokens. Only kubelet is missing, so
//! Pods exist in the API alone, and their sidecars are processes here.

mod sidecar;

pub use sidecar::{Sidecar, SidecarAsked};

use crate::{ApiServer, Process, Spawn, binary, eventually, free_port, http_get};
use anyhow::{Context, ensure};
use fairtide_api::names::SYSTEM_NAMESPACE;
use http::StatusCode;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::sync::OnceCell;

/// For a machine that compiles meanwhile; usually a second is enough.
const START: Duration = Duration::from_secs(60);

/// The operator's ServiceAccount.
const ACCOUNT: &str = "fairtide-operator";

/// A cluster with Fairtide in it. On drop everything ends.
#[derive(Debug)]
pub struct Installation {
    // Dropped in this order: who loses its server first would fill its log with complaints.
    operator: Option<Process>,
    operator_spawn: Spawn,
    channel: String,
    admin: String,
    folder: PathBuf,
    /// The cluster.
    pub api: ApiServer,
}

/// The top of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

// === impl Installation ===

impl Installation {
    /// The one that all tests of this process share. Each takes a namespace of its own.
    pub async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceCell<Installation> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// One of its own, for tests that kill the operator.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_as(None).await
    }

    /// One of its own, whose API server asks the operator about new pods.
    pub async fn start_with_webhook() -> anyhow::Result<Self> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let this = Self::start_as(Some(&address)).await?;
        // There is no Service here.
        let url = json!({ "url": format!("https://{address}/inject") });
        let at = |entry: u8| format!("/webhooks/{entry}/clientConfig");
        let patch = [0, 1].map(|entry| json!({"op": "replace", "path": at(entry), "value": url}));
        let patch = json!(patch).to_string();
        let object = ["mutatingwebhookconfiguration", "fairtide"];
        let patch = ["patch", object[0], object[1], "--type=json", "-p", &patch];
        this.api.kubectl(&patch).await?;
        Ok(this)
    }

    async fn start_as(webhook: Option<&str>) -> anyhow::Result<Self> {
        let api = ApiServer::start().await?;
        for what in ["crds", "manifests"] {
            let path = repository().join(what);
            let path = path.to_str().context("the repository's path is UTF-8")?;
            api.kubectl(&["apply", "-f", path]).await?;
        }
        api.kubectl(&["wait", "--for=condition=Established", "crd", "--all"])
            .await?;
        let kubeconfig = api
            .service_account_kubeconfig(SYSTEM_NAMESPACE, ACCOUNT)
            .await?;
        let folder = api.folder().join("fairtide");
        fs::create_dir(&folder)?;
        let [channel, admin] = [free_port()?, free_port()?].map(|port| format!("127.0.0.1:{port}"));
        let operator_spawn = Spawn::new(
            binary("fairtide-operator")?,
            folder.join("fairtide-operator.log"),
        )
        .args(["--kubeconfig".as_ref(), kubeconfig.as_os_str()])
        .args(["--channel-ca-dir".as_ref(), folder.as_os_str()])
        .args(["--channel", &channel, "--admin", &admin])
        .args(webhook.into_iter().flat_map(|address| {
            [
                "--webhook",
                address,
                "--sidecar-image",
                "fairtide-sidecar:test",
            ]
        }));
        let mut this = Self {
            operator: None,
            operator_spawn,
            channel,
            admin,
            folder,
            api,
        };
        this.start_operator().await?;
        Ok(this)
    }

    /// Starts the operator, again after [`Installation::kill_operator`], and waits until it is
    /// ready.
    pub async fn start_operator(&mut self) -> anyhow::Result<()> {
        let operator = self.operator.insert(self.operator_spawn.start()?);
        operator.ready(&self.admin, "/readyz", START).await
    }

    /// Where the operator's probes and metrics are.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// Kills the operator as a crash would.
    pub fn kill_operator(&mut self) {
        self.operator = None;
    }

    /// What the operator's debug page says of each pod.
    pub async fn pods(&self) -> anyhow::Result<Value> {
        let (status, body) = http_get(&self.admin, "/debug/pods").await?;
        ensure!(status == StatusCode::OK, "{status}");
        Ok(serde_json::from_slice(&body)?)
    }

    /// What the operator has printed.
    pub fn operator_log(&self) -> String {
        self.operator.as_ref().map(Process::log).unwrap_or_default()
    }

    /// The operator's exit status, if it has ended by itself.
    pub fn operator_exited(&mut self) -> Option<i32> {
        self.operator.as_mut().and_then(Process::exited)
    }

    /// Starts the sidecar of a pod, which is created, and waits until it takes traffic.
    pub async fn start_sidecar(&self, asked: SidecarAsked<'_>) -> anyhow::Result<Sidecar> {
        Sidecar::start(self, asked, START).await
    }

    /// Waits until a condition of an object has this status and reason for its newest generation,
    /// and gives its message. `object` is what kubectl calls it: `ftclass/chat`.
    pub async fn condition(
        &self,
        namespace: &str,
        object: &str,
        [condition, status, reason]: [&str; 3],
    ) -> anyhow::Result<String> {
        let what = format!("{object} has {condition}={status} ({reason})");
        eventually(&what, START, async || {
            let json = self
                .api
                .kubectl(&["get", object, "-n", namespace, "-o", "json"])
                .await?;
            let object: Value = serde_json::from_str(&json)?;
            let conditions = object["status"]["conditions"].as_array();
            let found = conditions
                .and_then(|all| all.iter().find(|one| one["type"] == condition))
                .with_context(|| format!("no {condition} in {}", object["status"]))?;
            ensure!(found["status"] == status, "{found}");
            ensure!(found["reason"] == reason, "{found}");
            let generation = &object["metadata"]["generation"];
            ensure!(found["observedGeneration"] == *generation, "{found}");
            Ok(found["message"].as_str().unwrap_or_default().to_owned())
        })
        .await
    }
}
