//! Objects from the API server.
//!
//! One watch per kind, each on its own: what breaks one never stops another. A watch that ends, is
//! too old (410) or is refused is started anew with a back-off, for ever; a kind whose
//! CustomResourceDefinition isn't there yet is waited for. An object that can't be read becomes a
//! change like any other. Of pods only the metadata is asked for, and finished ones not at all.

use crate::{
    metrics::{Kind as KindLabel, Metrics},
    world::{Change, Delta, Pod, Seen},
};
use fairtide_api::{InferencePool, TrafficClass};
use fairtide_resolve::ObjectKey;
use fairtide_telemetry::Health;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1 as core;
use kube::{
    Api, Client, Resource,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, Config, Event},
    },
};
use rand::Rng;
use std::{fmt::Debug, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

/// Names of the conditions that [`watch`] meets once each kind was listed.
pub const LISTED: [&str; 3] = [POOLS, CLASSES, PODS];

const POOLS: &str = "inferencepools.traffic.fairtide.dev";
const CLASSES: &str = "trafficclasses.traffic.fairtide.dev";
const PODS: &str = "pods";

/// Pods that have ended serve nobody, and clusters keep thousands of them.
const LIVE_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Between two tries of a watch that doesn't start: at first, and at the most. Low enough that a
/// user who installs the CustomResourceDefinitions late doesn't wonder.
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];

/// Without a failure for this long, the next is a first one.
const CALM: Duration = Duration::from_secs(30);

/// What all watches need.
#[derive(Clone)]
pub struct Watches {
    /// A client that may list and watch both kinds and pods.
    pub client: Client,
    /// Takes the changes.
    pub changes: mpsc::Sender<Vec<Change>>,
    /// Is told when a kind was listed.
    pub health: Health,
    /// Where things are counted.
    pub metrics: Arc<Metrics>,
    /// Fires when the operator ends.
    pub stop: CancellationToken,
}

// === impl Watches ===

impl Watches {
    /// Watches all kinds until `stop`.
    pub async fn run(self) {
        let pools = Api::<DeserializeGuard<InferencePool>>::all(self.client.clone());
        let classes = Api::<DeserializeGuard<TrafficClass>>::all(self.client.clone());
        let pods = Api::<PartialObjectMeta<core::Pod>>::all(self.client.clone());
        let live = Config::default().fields(LIVE_PODS);
        tokio::join!(
            self.watch(
                POOLS,
                watcher::watcher(pools, Config::default()),
                seen,
                key_of,
                Change::Pools
            ),
            self.watch(
                CLASSES,
                watcher::watcher(classes, Config::default()),
                seen,
                key_of,
                Change::Classes
            ),
            self.watch(
                PODS,
                watcher::watcher(pods, live),
                |pod| Pod::of(&pod.metadata),
                |pod: &Pod| pod.meta.key.clone(),
                Change::Pods
            ),
        );
    }

    async fn watch<K, T>(
        &self,
        kind: &'static str,
        stream: impl Stream<Item = watcher::Result<Event<K>>> + Send,
        trim: impl Fn(K) -> T + Send,
        key: impl Fn(&T) -> ObjectKey + Send,
        change: impl Fn(Delta<T>) -> Change + Send,
    ) where
        K: Debug + Send,
        T: Send,
    {
        let mut stream = std::pin::pin!(stream.backoff(Jittered::default()));
        let mut listing = Vec::new();
        let mut trouble = Trouble::default();
        loop {
            let event = tokio::select! {
                () = self.stop.cancelled() => return,
                event = stream.next() => event,
            };
            let delta = match event {
                // The stream of a watcher has no end.
                None => return,
                Some(Err(error)) => {
                    let label = KindLabel { kind };
                    self.metrics.watch_errors.get_or_create(&label).inc();
                    trouble.report(kind, &error);
                    continue;
                }
                Some(Ok(Event::Init)) => {
                    listing.clear();
                    continue;
                }
                Some(Ok(Event::InitApply(object))) => {
                    listing.push(trim(object));
                    continue;
                }
                Some(Ok(Event::InitDone)) => {
                    tracing::info!(kind, objects = listing.len(), "listed");
                    trouble = Trouble::default();
                    self.health.set(kind, true);
                    Delta::Replace(std::mem::take(&mut listing))
                }
                Some(Ok(Event::Apply(object))) => Delta::Apply(trim(object)),
                Some(Ok(Event::Delete(object))) => Delta::Delete(key(&trim(object))),
            };
            if self.changes.send(vec![change(delta)]).await.is_err() {
                return;
            }
        }
    }
}

/// The object without what nobody reads.
fn seen<T: Resource>(guard: DeserializeGuard<T>) -> Seen<T> {
    match guard.0 {
        Ok(mut object) => {
            object.meta_mut().managed_fields = None;
            Ok(object)
        }
        Err(mut invalid) => {
            invalid.metadata.managed_fields = None;
            Err(Box::new(invalid))
        }
    }
}

fn key_of<T: Resource>(seen: &Seen<T>) -> ObjectKey {
    match seen {
        Ok(object) => ObjectKey::of(object.meta()),
        Err(invalid) => ObjectKey::of(&invalid.metadata),
    }
}

/// Says what is wrong with a watch, once for each thing that is.
#[derive(Default)]
struct Trouble {
    last: Option<String>,
}

// === impl Trouble ===

impl Trouble {
    fn report(&mut self, kind: &'static str, error: &watcher::Error) {
        let text = error.to_string();
        if self.last.as_ref() == Some(&text) {
            return;
        }
        match code(error) {
            Some(404) => tracing::warn!(
                kind,
                "the kind is not installed; waiting for it: kubectl apply -f crds/"
            ),
            Some(403) => tracing::error!(
                kind,
                error = text,
                "not allowed to list and watch; grant it: kubectl apply -f manifests/rbac.yaml"
            ),
            // Watches are ended by the API server now and then, and by its restart.
            Some(410) => tracing::debug!(kind, "watch too old; listed anew"),
            _ => tracing::warn!(kind, error = text, "watch broke; started anew"),
        }
        self.last = Some(text);
    }
}

fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

/// Doubles up to the most, each time by chance between half of it and all. Begins anew after a
/// while without a failure: the watcher calls each new try a success at first.
#[derive(Default)]
struct Jittered {
    tries: u32,
    last: Option<Instant>,
}

impl Iterator for Jittered {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.last.is_none_or(|last| now - last > CALM) {
            self.tries = 0;
        }
        self.last = Some(now);
        let [first, most] = BACKOFF;
        let wait = first.saturating_mul(1 << self.tries.min(16)).min(most);
        self.tries += 1;
        Some(wait.mul_f64(rand::rng().random_range(0.5..1.0)))
    }
}

impl Backoff for Jittered {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_wait_longer_and_one_after_a_calm_time_does_not() {
        let mut backoff = Jittered::default();
        let first = backoff.next().unwrap();
        assert!(first <= BACKOFF[0]);
        for _ in 0..10 {
            backoff.reset();
            let wait = backoff.next().unwrap();
            assert!(wait <= BACKOFF[1]);
            tokio::time::sleep(wait).await;
        }
        assert!(backoff.next().unwrap() >= BACKOFF[1] / 2);
        tokio::time::sleep(CALM * 2).await;
        assert!(backoff.next().unwrap() <= BACKOFF[0]);
    }
}
