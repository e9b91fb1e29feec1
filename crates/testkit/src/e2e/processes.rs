//! The processes in the pods, as the node sees them.

use anyhow::{Context, ensure};
use std::{
    fs,
    time::{Duration, SystemTime},
};
use tokio::process::Command;

/// The unit of times in `/proc`, on every Linux that there is.
const TICK: Duration = Duration::from_millis(10);

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pid(u32);

/// The first process of the sidecar's container in a pod.
pub fn sidecar(namespace: &str, pod: &str) -> anyhow::Result<Pid> {
    find(
        &format!("FAIRTIDE_POD={namespace}/{pod}"),
        "/fairtide-sidecar",
    )
    .with_context(|| format!("no sidecar of {pod} runs"))
}

/// The process that serves, which the sidecar's first process starts.
pub fn worker(sidecar: Pid) -> anyhow::Result<Pid> {
    let parent = sidecar.0.to_string();
    let mut pids = all();
    let worker = pids.find(|pid| pid.field("PPid").is_ok_and(|it| it == parent));
    worker.context("the sidecar has no worker")
}

/// The engine of a pod.
pub fn engine(pod: &str) -> anyhow::Result<Pid> {
    find(&format!("HOSTNAME={pod}"), "vllm").with_context(|| format!("no engine of {pod} runs"))
}

fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        Some(Pid(name.to_str()?.parse().ok()?))
    })
}

/// The first process of a container, by a variable of its environment and its command.
fn find(variable: &str, program: &str) -> Option<Pid> {
    all().find(|pid| {
        let has = |file, wanted: &str| {
            let bytes = fs::read(format!("/proc/{}/{file}", pid.0)).unwrap_or_default();
            let mut parts = bytes.split(|byte| *byte == 0);
            match file {
                "cmdline" => parts.next() == Some(wanted.as_bytes()),
                _ => parts.any(|part| part == wanted.as_bytes()),
            }
        };
        // Process 1 of its own namespace: hooks and workers aren't meant.
        let first = |value: String| value.split_whitespace().last() == Some("1");
        has("environ", variable) && has("cmdline", program) && pid.field("NSpid").is_ok_and(first)
    })
}

// === impl Pid ===

impl Pid {
    /// Whether it still runs.
    pub fn is_alive(self) -> bool {
        let state = self.field("State");
        state.is_ok_and(|state| !state.starts_with('Z') && !state.starts_with('X'))
    }

    /// A line of its status.
    pub fn field(self, name: &str) -> anyhow::Result<String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0))?;
        let mut lines = status.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value = value.with_context(|| format!("no {name} in its status"))?;
        Ok(value.trim().to_owned())
    }

    /// Whether its root filesystem can't be written.
    pub fn has_read_only_root(self) -> anyhow::Result<bool> {
        let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", self.0))?;
        let mut mounts = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        let root = mounts.find(|mount| mount.get(4) == Some(&"/"));
        let root = root.context("no root in its mounts")?;
        let options = root.get(5).context("a mount has options")?;
        Ok(options.split(',').any(|option| option == "ro"))
    }

    /// When it was started, to a hundredth of a second.
    pub fn started_at(self) -> anyhow::Result<SystemTime> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0))?;
        let (_, fields) = stat.rsplit_once(") ").context("a stat line")?;
        let ticks = fields.split(' ').nth(19).context("a start time")?;
        let since_boot = TICK * ticks.parse::<u32>()?;
        let uptime = fs::read_to_string("/proc/uptime")?;
        let uptime = uptime.split(' ').next().context("an uptime")?;
        let age = Duration::from_secs_f64(uptime.parse()?).saturating_sub(since_boot);
        Ok(SystemTime::now() - age)
    }

    /// Sends it a signal, by its name without `SIG`.
    pub async fn signal(self, name: &str) -> anyhow::Result<()> {
        let mut kill = Command::new("kill");
        let status = kill
            .args(["-s", name, &self.0.to_string()])
            .status()
            .await?;
        ensure!(status.success(), "can't send {name}: {status}");
        Ok(())
    }
}
