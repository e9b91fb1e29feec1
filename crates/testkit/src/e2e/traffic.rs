//! Requests of clients.

use anyhow::{Context, ensure};
use fairtide_testkit::{Answer, http_post};
use http::StatusCode;
use serde_json::json;
use std::{net::SocketAddr, time::Duration};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

const PATH: &str = "/v1/completions";

/// How a stream went.
pub struct Stream {
    pub events: usize,
    pub took: Duration,
}

/// What a client saw that asked again and again.
pub struct Steady {
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<usize>>,
}

/// A short request; fails unless it is answered as a whole.
pub async fn ask(address: SocketAddr) -> anyhow::Result<()> {
    let body = json!({ "prompt": "How deep is the sea?", "max_tokens": 3 });
    let answer = http_post(address, PATH, &[], body.to_string()).await?;
    let (status, class) = (answer.status, answer.header("x-fairtide-class").to_owned());
    let body = answer.json().await?;
    ensure!(status == StatusCode::OK, "{status}: {body}");
    ensure!(!class.is_empty(), "it went around the sidecar: {body}");
    let tokens = &body["usage"]["completion_tokens"];
    ensure!(*tokens == 3, "{body}");
    Ok(())
}

/// Begins a long stream: its head and its first event have come.
pub async fn begin(
    address: SocketAddr,
    tokens: u32,
) -> anyhow::Result<JoinHandle<anyhow::Result<Stream>>> {
    let body = json!({ "prompt": "Tell it all.", "max_tokens": tokens, "stream": true });
    let mut answer = http_post(address, PATH, &[], body.to_string()).await?;
    ensure!(answer.status == StatusCode::OK, "{}", answer.status);
    let first = answer.piece().await?.context("an empty stream")?;
    Ok(tokio::spawn(follow(answer, first.to_vec())))
}

/// Follows a stream to its proper end.
async fn follow(mut answer: Answer, mut text: Vec<u8>) -> anyhow::Result<Stream> {
    let started = Instant::now();
    let mut pieces = async || -> anyhow::Result<()> {
        while let Some(piece) = answer.piece().await? {
            text.extend_from_slice(&piece);
        }
        Ok(())
    };
    let ended = pieces().await;
    let text = String::from_utf8_lossy(&text);
    let events = text.matches("data: {").count();
    let last = text.trim_end().rsplit('\n').next().unwrap_or_default();
    ended.with_context(|| format!("cut after {events} events: {last}"))?;
    ensure!(
        last == "data: [DONE]",
        "ended after {events} events with {last}"
    );
    Ok(Stream {
        events,
        took: started.elapsed(),
    })
}

// === impl Steady ===

impl Steady {
    /// Sends one short request after the other, each on a connection of its own.
    pub fn begin(address: SocketAddr) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut answered = 0;
            while !stopped.is_cancelled() {
                let asked = ask(address).await;
                asked.with_context(|| format!("after {answered} good answers"))?;
                answered += 1;
            }
            Ok(answered)
        });
        Self { stop, task }
    }

    /// Stops, and tells how many were answered; fails when one wasn't.
    pub async fn end(self) -> anyhow::Result<usize> {
        self.stop.cancel();
        self.task.await?
    }
}
