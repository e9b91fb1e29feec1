//! Processes that don't outlive the test that started them, however it ends.
//!
//! Each runs under a small shell that holds the read end of a pipe. Lines on the pipe are signals
//! to send; its end, which also comes when this process is killed, kills the program. That needs
//! neither unsafe code (as `PR_SET_PDEATHSIG` would) nor pids that may mean another process by now.

use crate::{eventually, http_get};
use anyhow::{Context, bail};
use http::StatusCode;
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Write,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    time::Duration,
};

/// The arguments are the program and its own. The shell's exit status is the program's, or 128 + n
/// when signal n ended it.
const SUPERVISOR: &str = r#"
exec 3<&0 </dev/null
"$@" 3<&- &
child=$!
{
    while read -r signal; do kill -s "$signal" "$child"; done <&3
    kill -s KILL "$child"
} 2>/dev/null &
watcher=$!
exec 3<&-
wait "$child"; status=$?
kill -s KILL "$watcher" 2>/dev/null
exit "$status"
"#;

/// A proxy for downloads must not come between the programs on loopback.
const PROXY_VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
];

/// The lines of a log that are shown when a test fails.
const SHOWN_LINES: usize = 40;

/// How a program is to be started.
#[derive(Clone, Debug)]
pub struct Spawn {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    log: PathBuf,
}

/// A running program; killed on drop.
#[derive(Debug)]
pub struct Process {
    name: String,
    supervisor: Child,
    signals: Option<ChildStdin>,
    log: PathBuf,
    status: Option<i32>,
}

/// The path of one of the workspace's programs, beside the test or demo that asks.
pub fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let me = std::env::current_exe()?;
    let mut folder = me.parent().context("a program lies in a folder")?;
    if folder.ends_with("deps") {
        folder = folder.parent().context("deps lies in a folder")?;
    }
    let path = folder.join(name);
    if !path.exists() {
        bail!(
            "{} is missing: build it by `cargo build --workspace --bins`",
            path.display()
        );
    }
    Ok(path)
}

/// A process's children, the oldest first.
pub fn children(of: u32) -> anyhow::Result<Vec<u32>> {
    let path = format!("/proc/{of}/task/{of}/children");
    let text = std::fs::read_to_string(&path).with_context(|| path)?;
    let numbers = text.split_whitespace().map(str::parse);
    Ok(numbers.collect::<Result<_, _>>()?)
}

// === impl Spawn ===

impl Spawn {
    /// `program`, whose output goes into the file `log` (appended to, so that a restart keeps it).
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            log: log.into(),
        }
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Starts it.
    pub fn start(&self) -> anyhow::Result<Process> {
        let name = self
            .program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("open {}", self.log.display()))?;
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(SUPERVISOR)
            .arg("sh")
            .arg(&self.program)
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Not the terminal's group: an interrupt ends this process, and the pipe's end the rest.
            .process_group(0);
        for variable in PROXY_VARIABLES {
            command.env_remove(variable);
        }
        let mut supervisor = command.spawn().with_context(|| format!("start {name}"))?;
        Ok(Process {
            name,
            signals: supervisor.stdin.take(),
            supervisor,
            log: self.log.clone(),
            status: None,
        })
    }
}

// === impl Process ===

impl Process {
    /// Sends a signal by its name without `SIG`: `TERM`, `STOP`, `KILL`.
    pub fn signal(&mut self, name: &str) -> anyhow::Result<()> {
        let signals = self.signals.as_mut().context("it was ended before")?;
        writeln!(signals, "{name}").with_context(|| format!("{} has ended", self.name))
    }

    /// The number of the program itself, not of the shell above it.
    pub fn pid(&self) -> anyhow::Result<u32> {
        let first = children(self.supervisor.id())?.into_iter().next();
        first.with_context(|| format!("{} has ended", self.name))
    }

    /// The exit status if it has ended; 128 + n when signal n ended it.
    pub fn exited(&mut self) -> Option<i32> {
        if self.status.is_none()
            && let Ok(Some(status)) = self.supervisor.try_wait()
        {
            self.status = Some(status.code().unwrap_or(-1));
        }
        self.status
    }

    /// Waits for the end and gives the exit status.
    pub async fn wait(&mut self, deadline: Duration) -> anyhow::Result<i32> {
        let what = format!("{} has ended", self.name);
        eventually(&what, deadline, async || {
            self.exited().context("it still runs")
        })
        .await
    }

    /// Kills it at once, as a crash would, and waits until it is gone.
    pub fn kill(&mut self) {
        drop(self.signals.take());
        if self.status.is_none()
            && let Ok(status) = self.supervisor.wait()
        {
            self.status = Some(status.code().unwrap_or(-1));
        }
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits for a line that contains `text`, and gives it. Fails at once when the program ends.
    pub async fn line(&mut self, text: &str, deadline: Duration) -> anyhow::Result<String> {
        let what = format!("{} prints {text:?}", self.name);
        self.unless_exited(&what, deadline, async |this| {
            let log = this.log();
            let line = log.lines().find(|line| line.contains(text));
            line.map(str::to_owned).context("no such line")
        })
        .await
    }

    /// Waits until `GET http://{authority}{path}` answers 200. Fails at once when the program ends.
    pub async fn ready(
        &mut self,
        authority: &str,
        path: &str,
        deadline: Duration,
    ) -> anyhow::Result<()> {
        let what = format!("{} answers 200 on {authority}{path}", self.name);
        self.unless_exited(&what, deadline, async |_| {
            let (status, body) = http_get(authority, path).await?;
            if status != StatusCode::OK {
                bail!("{status}: {}", String::from_utf8_lossy(&body));
            }
            Ok(())
        })
        .await
    }

    async fn unless_exited<T>(
        &mut self,
        what: &str,
        deadline: Duration,
        mut probe: impl AsyncFnMut(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let result = eventually(what, deadline, async || match self.exited() {
            // What it printed last may be what is waited for.
            Some(status) => Ok(probe(self).await.map_err(|_| status)),
            None => probe(self).await.map(Ok),
        })
        .await
        .with_context(|| self.last_lines())?;
        result.map_err(|status| {
            anyhow::anyhow!(
                "{} ended with status {status}: {}",
                self.name,
                self.last_lines()
            )
        })
    }

    /// The end of what it has printed, for messages.
    pub(crate) fn last_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let from = lines.len().saturating_sub(SHOWN_LINES);
        format!(
            "the last lines of {}:\n{}",
            self.name,
            lines[from..].join("\n")
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.last_lines());
        }
        self.kill();
    }
}
