//! A sidecar as in a pod: with the pod's own token, the operator's CA, and a folder that outlives
//! its restarts.

use super::Installation;
use crate::{BoundPod, Process, Spawn, binary, eventually, free_port, http_get};
use anyhow::{Context, ensure};
use fairtide_api::names::TOKEN_AUDIENCE;
use http::StatusCode;
use serde_json::Value;
use std::{fs, net::SocketAddr, time::Duration};

/// What is to be started.
#[derive(Clone, Copy, Debug)]
pub struct SidecarAsked<'a> {
    /// The pod's namespace, which must have a ServiceAccount `default`.
    pub namespace: &'a str,
    /// The pod's name.
    pub name: &'a str,
    /// The pod's labels.
    pub labels: &'a [(&'a str, &'a str)],
    /// Where its engine listens.
    pub engine: SocketAddr,
}

/// A pod that exists, and its sidecar's process.
#[derive(Debug)]
pub struct Sidecar {
    /// The pod.
    pub pod: BoundPod,
    process: Option<Process>,
    spawn: Spawn,
    listen: SocketAddr,
    admin: String,
}

// === impl Sidecar ===

impl Sidecar {
    pub(super) async fn start(
        installation: &Installation,
        asked: SidecarAsked<'_>,
        deadline: Duration,
    ) -> anyhow::Result<Self> {
        let SidecarAsked {
            namespace,
            name,
            labels,
            engine,
        } = asked;
        let pod = installation
            .api
            .create_bound_pod(namespace, name, labels)
            .await?;
        let token = installation.api.bound_token(&pod, TOKEN_AUDIENCE).await?;
        let folder = installation.folder.join(format!("{namespace}.{name}"));
        let state = folder.join("state");
        fs::create_dir_all(&state)?;
        let token_file = folder.join("token");
        fs::write(&token_file, token)?;
        let listen = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let admin = format!("127.0.0.1:{}", free_port()?);
        let spawn = Spawn::new(binary("fairtide-sidecar")?, folder.join("log"))
            .args(["--channel", &format!("https://{}", installation.channel)])
            .args([
                "--channel-ca".as_ref(),
                installation.folder.join("ca.crt").as_os_str(),
            ])
            .args(["--channel-token".as_ref(), token_file.as_os_str()])
            .args(["--state-dir".as_ref(), state.as_os_str()])
            .args(["--pod", &format!("{namespace}/{name}")])
            .args(["--listen", &listen.to_string()])
            .args(["--upstream", &engine.to_string()])
            .args(["--admin", &admin]);
        let mut this = Self {
            pod,
            process: None,
            spawn,
            listen,
            admin,
        };
        this.start_again(deadline).await?;
        Ok(this)
    }

    /// Starts it, after [`Sidecar::kill`] too, and waits until it takes traffic.
    pub async fn start_again(&mut self, deadline: Duration) -> anyhow::Result<()> {
        let process = self.process.insert(self.spawn.start()?);
        process.ready(&self.admin, "/readyz", deadline).await
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Its exit status, if it has ended by itself.
    pub fn exited(&mut self) -> Option<i32> {
        self.process.as_mut().and_then(Process::exited)
    }

    /// Where it takes traffic.
    pub fn address(&self) -> SocketAddr {
        self.listen
    }

    /// What its debug page says.
    pub async fn state(&self) -> anyhow::Result<Value> {
        let (status, body) = http_get(&self.admin, "/debug/state").await?;
        ensure!(status == StatusCode::OK, "{status}");
        Ok(serde_json::from_slice(&body)?)
    }

    /// Its metrics, as Prometheus reads them.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        let (status, body) = http_get(&self.admin, "/metrics").await?;
        ensure!(status == StatusCode::OK, "{status}");
        Ok(String::from_utf8(body.to_vec())?)
    }

    /// Waits until its debug page shows at `pointer` (as in `/policy/source`) this value.
    pub async fn shows(
        &self,
        pointer: &str,
        value: impl Into<Value>,
        deadline: Duration,
    ) -> anyhow::Result<()> {
        let value = value.into();
        let what = format!("{} has {pointer} = {value}", self.pod.name);
        eventually(&what, deadline, async || {
            let state = self.state().await?;
            let found = state.pointer(pointer).context("nothing is there")?;
            ensure!(*found == value, "it is {found}");
            Ok(())
        })
        .await
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }
}
