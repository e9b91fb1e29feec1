//! The processes of a demo: one operator, and engines with a sidecar before each.

use crate::{exhibit::Exhibit, policy::PolicyFiles};
use anyhow::{Context, bail};
use fairtide_testkit::{Process, Spawn, binary, eventually, free_port, http_get};
use serde_json::Value;
use std::{fs, path::Path, time::Duration};
use tokio::time::Instant;

/// For a machine that is busy with other things; a good one takes a second in all.
const START: Duration = Duration::from_secs(30);

/// A policy edit must get through in this time, else the demo ends as failed.
const PUSH: Duration = Duration::from_secs(20);

/// How often the wait for an edit looks again: well below what is measured.
const GLANCE: Duration = Duration::from_millis(2);

/// Of a program's log, when something went wrong.
const SHOWN_LINES: usize = 10;

const ACKS: &str = "fairtide_operator_acks_total";

/// The running programs. Dropping it kills them.
#[derive(Debug)]
pub struct Fleet {
    operator: Program,
    engines: Vec<Program>,
    sidecars: Vec<Program>,
}

#[derive(Debug)]
struct Program {
    what: String,
    process: Process,
    /// Of its traffic.
    listen: String,
    /// Of its probes and debug pages.
    admin: String,
}

fn address() -> anyhow::Result<String> {
    Ok(format!("127.0.0.1:{}", free_port()?))
}

// === impl Fleet ===

impl Fleet {
    /// Starts everything and waits until each says that it is ready.
    pub async fn start(
        exhibit: &Exhibit,
        folder: &Path,
        policy: &PolicyFiles,
    ) -> anyhow::Result<Self> {
        let ca = folder.join("ca");
        let token = folder.join("token");
        fs::write(&token, "demo-token\n").context("write the channel's token")?;
        let mut operator = Program::start(
            "operator",
            "fairtide-operator",
            folder,
            |listen, admin| {
                format!(
                    "--manifests {} --channel {listen} --channel-token {} --channel-ca-dir {} --admin {admin}",
                    policy.folder().display(),
                    token.display(),
                    ca.display(),
                )
            },
        )?;
        let mut engines = Vec::new();
        for at in 0..exhibit.engines {
            let what = format!("engine-{at}");
            let mut engine = Program::start(&what, "fairtide-sim", folder, |listen, _| {
                format!("engine --listen {listen} --profile {}", exhibit.profile)
            })?;
            // It has one port for all.
            engine.admin = engine.listen.clone();
            engines.push(engine);
        }
        operator.ready("/readyz").await?;
        let mut sidecars = Vec::new();
        for (at, engine) in engines.iter_mut().enumerate() {
            engine.ready("/health").await?;
            let what = format!("sidecar-{at}");
            sidecars.push(Program::start(&what, "fairtide-sidecar", folder, |listen, admin| {
                format!(
                    "--channel https://{} --channel-ca {} --channel-token {} --pod demo/llama-{at} --listen {listen} --upstream {} --admin {admin}",
                    operator.listen,
                    ca.join("ca.crt").display(),
                    token.display(),
                    engine.listen,
                )
            })?);
        }
        for sidecar in &mut sidecars {
            sidecar.ready("/readyz").await?;
        }
        Ok(Self {
            operator,
            engines,
            sidecars,
        })
    }

    /// Where the load goes: `http://host:port/` of each sidecar.
    pub fn targets(&self) -> anyhow::Result<Vec<http::Uri>> {
        let uris = self.sidecars.iter().map(|sidecar| {
            let uri = format!("http://{}/", sidecar.listen);
            uri.parse().context("an address makes a URL")
        });
        uris.collect()
    }

    /// Does an edit, and waits until each sidecar's policy document is as `wanted` says. Returns
    /// how long it took from the edit until the operator had every sidecar's ACK.
    pub async fn push(
        &mut self,
        edit: impl FnOnce() -> anyhow::Result<()>,
        wanted: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Duration> {
        let before = self.acks().await?;
        let edited = Instant::now();
        edit()?;
        let acked = loop {
            if self.acks().await? >= before + self.sidecars.len() as u64 {
                break edited.elapsed();
            }
            if edited.elapsed() > PUSH {
                bail!(
                    "the edit was not acknowledged within {PUSH:?}\n{}",
                    self.operator.last_lines()
                );
            }
            tokio::time::sleep(GLANCE).await;
        };
        self.until_obeyed(wanted).await?;
        Ok(acked)
    }

    /// Waits until each sidecar's policy document is as `wanted` says.
    pub async fn until_obeyed(&mut self, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        for sidecar in &mut self.sidecars {
            let what = format!("{} obeys the policy", sidecar.what);
            let admin = sidecar.admin.clone();
            eventually(&what, PUSH, async || {
                let (_, body) = http_get(&admin, "/debug/state").await?;
                let state: Value = serde_json::from_slice(&body)?;
                let document = &state["policy"]["document"];
                if !wanted(document) {
                    bail!("it obeys {document}");
                }
                Ok(())
            })
            .await
            .with_context(|| sidecar.last_lines())?;
        }
        Ok(())
    }

    /// Fails if a program has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let all = self.engines.iter_mut().chain(&mut self.sidecars);
        for program in all.chain([&mut self.operator]) {
            if let Some(status) = program.process.exited() {
                bail!(
                    "{} ended with status {status}\n{}",
                    program.what,
                    program.last_lines()
                );
            }
        }
        Ok(())
    }

    /// What the programs printed last, for the message about a phase that failed.
    pub fn last_lines(&self) -> String {
        let all = self.engines.iter().chain(&self.sidecars);
        let lines = all.chain([&self.operator]).map(Program::last_lines);
        lines.collect::<Vec<_>>().join("\n")
    }

    async fn acks(&self) -> anyhow::Result<u64> {
        let (_, page) = http_get(&self.operator.admin, "/metrics").await?;
        let page = String::from_utf8_lossy(&page);
        let value = page.lines().find_map(|line| line.strip_prefix(ACKS));
        let value = value.with_context(|| format!("the operator's metrics have no {ACKS}"))?;
        Ok(value.trim().parse()?)
    }
}

// === impl Program ===

impl Program {
    /// Starts it, with addresses of its own. `args` makes its arguments, spaces between them, from
    /// those for traffic and for probes.
    fn start(
        what: &str,
        program: &str,
        folder: &Path,
        args: impl FnOnce(&str, &str) -> String,
    ) -> anyhow::Result<Self> {
        let (listen, admin) = (address()?, address()?);
        let args = args(&listen, &admin);
        let log = folder.join(format!("{what}.log"));
        let process = Spawn::new(binary(program)?, log)
            .args(args.split(' '))
            .start()?;
        Ok(Self {
            what: what.to_owned(),
            process,
            listen,
            admin,
        })
    }

    async fn ready(&mut self, path: &str) -> anyhow::Result<()> {
        let admin = self.admin.clone();
        let ready = self.process.ready(&admin, path, START).await;
        ready.with_context(|| format!("{} did not get ready", self.what))
    }

    fn last_lines(&self) -> String {
        let log = self.process.log();
        let lines: Vec<&str> = log.lines().collect();
        let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
        format!("the last lines of {}:\n  {}", self.what, shown.join("\n  "))
    }
}
