//! The real kubectl, as a user runs it.

use super::ApiServer;
use anyhow::{Context, bail};
use std::process::Stdio;
use tokio::{io::AsyncWriteExt, process::Command};

// === impl ApiServer ===

impl ApiServer {
    /// Runs kubectl as cluster admin and gives what it prints, warnings included; fails with that
    /// text when kubectl fails.
    pub async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        self.kubectl_with(args, "").await
    }

    /// The same with text at its standard input, for `-f -`.
    pub async fn kubectl_with(&self, args: &[&str], input: &str) -> anyhow::Result<String> {
        let mut child = Command::new(self.programs.join("kubectl"))
            .arg("--cache-dir")
            .arg(self.folder.path().join("kubectl-cache"))
            .args(args)
            .env("KUBECONFIG", self.kubeconfig()?)
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start kubectl")?;
        let mut stdin = child.stdin.take().context("stdin is a pipe")?;
        let write = async move {
            // A kubectl that doesn't read its input closes the pipe: its own message says more.
            let _ = stdin.write_all(input.as_bytes()).await;
        };
        let ((), output) = tokio::join!(write, child.wait_with_output());
        let output = output?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        if !output.status.success() {
            bail!("kubectl {}: {text}", args.join(" "));
        }
        Ok(text)
    }
}
