//! A client that stops dead at a write: what a killed process leaves behind.

use kube::{Client, client::Body};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::watch;

/// Lets so many writes of Secrets and webhook configurations pass, and none after them.
#[derive(Clone)]
pub struct Gate {
    writes: Arc<AtomicUsize>,
    allowed: usize,
    blocked: watch::Sender<bool>,
}

impl Gate {
    pub fn of(allowed: usize) -> Self {
        Self {
            writes: Arc::default(),
            allowed,
            blocked: watch::Sender::new(false),
        }
    }

    /// One that only counts.
    pub fn counting() -> Self {
        Self::of(usize::MAX)
    }

    /// The same client, but for its writes.
    pub fn client(&self, client: Client) -> Client {
        let gate = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (gate, client) = (gate.clone(), client.clone());
            async move {
                let path = request.uri().path();
                let guarded =
                    path.contains("/secrets") || path.contains("mutatingwebhookconfigurations");
                if guarded && request.method() != http::Method::GET {
                    gate.pass().await;
                }
                client.send(request).await
            }
        });
        Client::new(service, "default")
    }

    async fn pass(&self) {
        if self.writes.fetch_add(1, Ordering::SeqCst) >= self.allowed {
            self.blocked.send_replace(true);
            std::future::pending::<()>().await;
        }
    }

    /// Writes that were tried.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// Waits until a write was stopped.
    pub async fn blocked(&self) {
        let mut blocked = self.blocked.subscribe();
        let _ = blocked.wait_for(|blocked| *blocked).await;
    }
}
