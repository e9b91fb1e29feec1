//! A real kube-apiserver with its etcd, on loopback, for one test binary or one test.
//!
//! There is no controller-manager, scheduler or node: nothing creates default ServiceAccounts,
//! collects garbage or runs Pods. What a test needs of that it does by the functions here, and
//! the rest of the API is the real thing: CEL rules, server-side apply, RBAC, TokenRequest,
//! TokenReview, watches, leases.

mod keys;
mod kubectl;
mod objects;
mod pods;

pub use pods::BoundPod;

use crate::{Process, Spawn, TempDir, control_plane_programs, eventually, free_port};
use anyhow::{Context, bail};
use keys::Keys;
use kube::{Client, Config, config::KubeConfigOptions, config::Kubeconfig};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::sync::OnceCell;

/// About 4 s are usual; a machine that compiles meanwhile takes many times as long.
const START: Duration = Duration::from_secs(120);

/// How often other ports are tried when somebody else took one of ours.
const PORT_TRIES: usize = 5;

/// The issuer of ServiceAccount tokens.
const ISSUER: &str = "https://kubernetes.default.svc";

/// A running API server. On drop its processes are killed and its files removed.
#[derive(Debug)]
pub struct ApiServer {
    // Dropped in this order: the API server, its storage, their files.
    api_server: Process,
    _etcd: Process,
    api_server_spawn: Spawn,
    programs: PathBuf,
    port: u16,
    keys: Keys,
    folder: TempDir,
}

// === impl ApiServer ===

impl ApiServer {
    /// The one that all tests of this process share. Each takes a namespace of its own.
    pub async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceCell<ApiServer> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// Starts one of its own, for tests that stop it or need the whole cluster.
    pub async fn start() -> anyhow::Result<Self> {
        let programs = control_plane_programs().await?;
        let mut tries = 1;
        loop {
            match Self::start_once(programs).await {
                Err(error) if tries < PORT_TRIES && format!("{error:#}").contains("in use") => {
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    async fn start_once(programs: &Path) -> anyhow::Result<Self> {
        let folder = TempDir::new("apiserver")?;
        let keys = Keys::generate(folder.path())?;
        let (port, etcd_port, peer_port) = (free_port()?, free_port()?, free_port()?);

        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let etcd = Spawn::new(programs.join("etcd"), folder.path().join("etcd.log"))
            .args(["--name=test", "--unsafe-no-fsync", "--log-level=warn"])
            .args([
                "--data-dir".as_ref(),
                folder.path().join("etcd").as_os_str(),
            ])
            .args(["--listen-client-urls", &etcd_url])
            .args(["--advertise-client-urls", &etcd_url])
            .args(["--listen-peer-urls", &peer_url])
            .args(["--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("test={peer_url}")])
            .start()?;

        let api_server_spawn = Spawn::new(
            programs.join("kube-apiserver"),
            folder.path().join("kube-apiserver.log"),
        )
        .args(keys.api_server_flags())
        .args([
            format!("--etcd-servers={etcd_url}"),
            format!("--secure-port={port}"),
            format!("--service-account-issuer={ISSUER}"),
        ])
        .args([
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--profiling=false",
        ]);

        let mut this = Self {
            api_server: api_server_spawn.start()?,
            _etcd: etcd,
            api_server_spawn,
            programs: programs.to_owned(),
            port,
            keys,
            folder,
        };
        this.wait_ready().await?;
        this.create_default_account("default").await?;
        Ok(this)
    }

    async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let client = self.client().await?;
        let what = "the API server is ready";
        let ready = eventually(what, START, async || {
            if self.api_server.exited().is_some() {
                return Ok(false);
            }
            let request = http::Request::get("/readyz").body(Vec::new())?;
            client.request_text(request).await?;
            Ok(true)
        })
        .await
        .with_context(|| self.api_server.last_lines())?;
        if !ready {
            let etcd = self._etcd.last_lines();
            bail!(
                "kube-apiserver ended: {}\n{etcd}",
                self.api_server.last_lines()
            );
        }
        Ok(())
    }

    /// Kills the API server as a crash would; its storage stays.
    pub fn stop(&mut self) {
        self.api_server.kill();
    }

    /// Starts it again after [`ApiServer::stop`], on the same port.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        self.api_server = self.api_server_spawn.start()?;
        self.wait_ready().await
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Where its files are. It goes away with the server; what tests put there, too.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The kubeconfig of a cluster admin.
    pub fn kubeconfig(&self) -> anyhow::Result<PathBuf> {
        let user = self.keys.admin_user();
        self.write_kubeconfig("admin", &user)
    }

    /// A client with the rights of a cluster admin. It belongs to the runtime that makes it, so a
    /// test makes its own.
    pub async fn client(&self) -> anyhow::Result<Client> {
        client_of(&self.kubeconfig()?).await
    }

    /// A client with the rights of a ServiceAccount.
    pub async fn service_account_client(
        &self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Client> {
        client_of(&self.service_account_kubeconfig(namespace, name).await?).await
    }

    /// A kubeconfig with the rights of a ServiceAccount, which must exist.
    pub async fn service_account_kubeconfig(
        &self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<PathBuf> {
        let token = self.token(namespace, name, None, None).await?;
        let user = serde_json::json!({ "token": token });
        self.write_kubeconfig(&format!("{namespace}.{name}"), &user)
    }

    fn write_kubeconfig(&self, user: &str, secrets: &serde_json::Value) -> anyhow::Result<PathBuf> {
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{ "name": "test", "cluster": {
                "server": self.url(),
                "certificate-authority-data": self.keys.ca_base64(),
            }}],
            "users": [{ "name": user, "user": secrets }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": user }}],
        });
        let name = format!("{user}.kubeconfig");
        // JSON is YAML too.
        Ok(self.folder.write(&name, kubeconfig.to_string())?)
    }
}

async fn client_of(kubeconfig: &Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}
