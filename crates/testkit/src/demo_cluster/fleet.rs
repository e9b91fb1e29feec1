//! The programs of the demo in a cluster: a real kube-apiserver with Fairtide installed, Pods, and
//! for each an engine and a sidecar. Takes the place of the demo's fleet that works from files:
//! what that does by writing a file, this does by `kubectl apply`.

use crate::{exhibit::Exhibit, policy::PolicyFiles};
use anyhow::{Context, bail, ensure};
use fairtide_testkit::{Installation, Process, Sidecar, SidecarAsked, Spawn, binary, free_port};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::Instant;

/// The namespace of the demo's policy files.
const NAMESPACE: &str = "demo";

/// For a machine that is busy with other things.
const START: Duration = Duration::from_secs(60);

/// A policy edit must get through in this time, else the demo ends as failed.
const PUSH: Duration = Duration::from_secs(20);

/// How often the wait for an edit looks again: well below what is measured.
const GLANCE: Duration = Duration::from_millis(2);

/// The running programs. Dropping it ends them all.
#[derive(Debug)]
pub struct Fleet {
    sidecars: Vec<Sidecar>,
    engines: Vec<Process>,
    fairtide: Installation,
    policy: PathBuf,
    /// What each file held when it was last applied.
    applied: BTreeMap<PathBuf, String>,
}

// === impl Fleet ===

impl Fleet {
    /// Starts everything and waits until each says that it is ready.
    pub async fn start(
        exhibit: &Exhibit,
        folder: &Path,
        policy: &PolicyFiles,
    ) -> anyhow::Result<Self> {
        // Stand-ins for Pods; here are real ones.
        fs::remove_file(policy.folder().join("pods.yaml")).context("take out pods.yaml")?;
        let fairtide = Installation::start().await?;
        println!(
            "kube-apiserver at {}: kinds and rights applied, the operator runs as its ServiceAccount\n",
            fairtide.api.url()
        );
        fairtide.api.create_namespace(NAMESPACE).await?;
        let mut this = Self {
            sidecars: Vec::new(),
            engines: Vec::new(),
            fairtide,
            policy: policy.folder().to_owned(),
            applied: BTreeMap::new(),
        };
        this.apply().await?;
        for at in 0..exhibit.engines {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
            let listen = address.to_string();
            let log = folder.join(format!("engine-{at}.log"));
            let mut engine = Spawn::new(binary("fairtide-sim")?, log)
                .args(["engine", "--listen", &listen, "--profile", exhibit.profile])
                .start()?;
            engine.ready(&listen, "/health", START).await?;
            this.engines.push(engine);
            let name = format!("llama-{at}");
            let asked = SidecarAsked {
                namespace: NAMESPACE,
                name: &name,
                labels: &[("app", "llama")],
                engine: address,
            };
            this.sidecars
                .push(this.fairtide.start_sidecar(asked).await?);
        }
        for sidecar in &this.sidecars {
            sidecar.shows("/policy/source", "channel", START).await?;
        }
        this.show().await?;
        Ok(this)
    }

    /// Where the load goes: `http://host:port/` of each sidecar.
    pub fn targets(&self) -> anyhow::Result<Vec<http::Uri>> {
        let uris = self.sidecars.iter().map(|sidecar| {
            let uri = format!("http://{}/", sidecar.address());
            uri.parse().context("an address makes a URL")
        });
        uris.collect()
    }

    /// Does an edit, applies it, and waits until each sidecar's policy document is as `wanted`
    /// says. Returns how long it took from the edit, kubectl's own time included, until the
    /// operator had every sidecar's ACK.
    pub async fn push(
        &mut self,
        edit: impl FnOnce() -> anyhow::Result<()>,
        wanted: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Duration> {
        let before = self.versions().await?;
        let edited = Instant::now();
        edit()?;
        self.apply().await?;
        let acked = loop {
            let now = self.versions().await?;
            let mut each = before.iter().zip(&now);
            if each.all(|(old, new)| new.acked == new.wanted && new.wanted != old.wanted) {
                break edited.elapsed();
            }
            if edited.elapsed() > PUSH {
                let log = self.fairtide.operator_log();
                bail!("the edit was not acknowledged within {PUSH:?}\n{log}");
            }
            tokio::time::sleep(GLANCE).await;
        };
        for sidecar in &self.sidecars {
            let document = &sidecar.state().await?["policy"]["document"];
            ensure!(wanted(document), "it obeys {document}\n{}", sidecar.log());
        }
        self.show().await?;
        Ok(acked)
    }

    /// Fails if a program has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        for engine in &mut self.engines {
            if let Some(status) = engine.exited() {
                bail!("an engine ended with status {status}\n{}", engine.log());
            }
        }
        for sidecar in &mut self.sidecars {
            if let Some(status) = sidecar.exited() {
                bail!("a sidecar ended with status {status}\n{}", sidecar.log());
            }
        }
        if let Some(status) = self.fairtide.operator_exited() {
            let log = self.fairtide.operator_log();
            bail!("the operator ended with status {status}\n{log}");
        }
        Ok(())
    }

    /// What the programs printed last, for the message about a phase that failed.
    pub fn last_lines(&self) -> String {
        let sidecars = self.sidecars.iter().map(Sidecar::log);
        let logs = sidecars.chain([self.fairtide.operator_log()]);
        let lines = logs.map(|log| {
            let lines: Vec<&str> = log.lines().collect();
            lines[lines.len().saturating_sub(10)..].join("\n")
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// `kubectl apply` of each policy file that is new or was edited.
    async fn apply(&mut self) -> anyhow::Result<()> {
        for path in yaml_files(&self.policy)? {
            let text = fs::read_to_string(&path)?;
            if self.applied.get(&path) == Some(&text) {
                continue;
            }
            let file = path.to_str().context("the path is UTF-8")?;
            let said = self.fairtide.api.kubectl(&["apply", "-f", file]).await?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            println!("$ kubectl apply -f {name}\n{}", said.trim_end());
            self.applied.insert(path, text);
        }
        Ok(())
    }

    /// Shows the objects once their status says that all sidecars obey.
    async fn show(&self) -> anyhow::Result<()> {
        let programmed = ["Programmed", "True", "Programmed"];
        self.fairtide
            .condition(NAMESPACE, "ftpool/llama", programmed)
            .await?;
        let args = ["get", "ftpool,ftclass", "-n", NAMESPACE, "-o", "wide"];
        println!("$ kubectl {}", args.join(" "));
        println!("{}", self.fairtide.api.kubectl(&args).await?);
        Ok(())
    }

    async fn versions(&self) -> anyhow::Result<Vec<Versions>> {
        let pods = self.fairtide.pods().await?;
        let pods = pods.as_array().context("a list of pods")?;
        let versions = pods.iter().map(|pod| Versions {
            wanted: pod["wanted"].clone(),
            acked: pod["acked"].clone(),
        });
        Ok(versions.collect())
    }
}

/// In the order of their names.
fn yaml_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// What a pod's sidecar should obey, and what it obeys.
#[derive(Debug)]
struct Versions {
    wanted: Value,
    acked: Value,
}
