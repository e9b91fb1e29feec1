//! The real kubectl, as a user runs it: it is on the PATH of the node, and KUBECONFIG is set.

use anyhow::{Context, bail};
use std::process::Stdio;
use tokio::process::Command;

/// Runs kubectl with these words, and gives what it prints; fails with that text when it fails.
pub async fn kubectl(line: &str) -> anyhow::Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new("kubectl")
        .args(words)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("start kubectl")?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if !output.status.success() {
        bail!("kubectl {line}: {}", text.trim());
    }
    Ok(text)
}
