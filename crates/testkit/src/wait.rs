//! Waiting for what another process does, without sleeping for a guessed time.

use std::time::Duration;
use tokio::time::Instant;

/// How often a condition is looked at.
const EVERY: Duration = Duration::from_millis(25);

/// Calls `probe` until it succeeds and gives its result; fails when it hasn't within `deadline`,
/// with the last reason. Be generous with the deadline: it is spent only by a failing test.
pub async fn eventually<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let end = Instant::now() + deadline;
    loop {
        // A probe that hangs must not hang the test.
        let error = match tokio::time::timeout_at(end, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(_) => anyhow::anyhow!("the last look didn't return"),
        };
        if Instant::now() + EVERY >= end {
            return Err(error.context(format!("after {deadline:?}, still not: {what}")));
        }
        tokio::time::sleep(EVERY).await;
    }
}
