//! `kubectl port-forward`, by which the loopback of a pod can be reached.

use crate::scene::AI;
use anyhow::{Context, ensure};
use fairtide_testkit::{Process, Spawn, TempDir, eventually, http_get};
use http::StatusCode;
use serde_json::Value;
use std::{net::SocketAddr, time::Duration};

const SOON: Duration = Duration::from_secs(60);

/// The sidecar's admin port.
pub const ADMIN: u16 = 29_990;

/// A forwarded port. Ends on drop.
pub struct Forward {
    pub address: SocketAddr,
    _kubectl: Process,
    _log: TempDir,
}

// === impl Forward ===

impl Forward {
    /// Forwards a free port to one of a pod (`pod/NAME`) or Service (`service/NAME`).
    pub async fn open(to: &str, port: u16) -> anyhow::Result<Self> {
        let log = TempDir::new("forward")?;
        let mut kubectl = Spawn::new("kubectl", log.path().join("log"))
            .args(["port-forward", "--namespace", AI, to])
            .args([format!(":{port}")])
            .start()?;
        let line = kubectl.line("Forwarding from 127.0.0.1:", SOON).await?;
        let address = line.split_whitespace().nth(2).context("an address")?;
        Ok(Self {
            address: address.parse()?,
            _kubectl: kubectl,
            _log: log,
        })
    }

    /// What the sidecar's debug page says.
    pub async fn state(&self) -> anyhow::Result<Value> {
        let (status, body) = http_get(&self.address.to_string(), "/debug/state").await?;
        ensure!(status == StatusCode::OK, "{status}");
        Ok(serde_json::from_slice(&body)?)
    }

    /// Waits until the debug page shows at `pointer` this value.
    pub async fn shows(&self, pointer: &str, value: &str) -> anyhow::Result<()> {
        let what = format!("the sidecar shows {pointer} = {value}");
        eventually(&what, Duration::from_secs(180), async || {
            let state = self.state().await?;
            let found = state.pointer(pointer).context("nothing is there")?;
            ensure!(*found == value, "it is {found}");
            Ok(())
        })
        .await
    }
}
