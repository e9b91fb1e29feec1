//! Labels and annotations of all namespaces, as far as injection reads them.

use fairtide_inject::Namespace;
use futures::StreamExt;
use k8s_openapi::{api::core::v1 as core, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Config, Event},
    },
};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio_util::sync::CancellationToken;

/// Nothing that injection reads is longer; kubectl keeps whole objects in annotations.
const LONGEST: usize = 1_024;

/// What is known of namespaces. Clones share it.
#[derive(Clone, Default)]
pub struct Namespaces(Arc<Mutex<HashMap<String, Namespace>>>);

// === impl Namespaces ===

impl Namespaces {
    /// A namespace; empty where it isn't known.
    pub fn get(&self, name: &str) -> Namespace {
        self.0.lock().get(name).cloned().unwrap_or_default()
    }

    /// Follows all namespaces until `stop`.
    pub async fn follow(self, client: Client, stop: CancellationToken) {
        let api = Api::<PartialObjectMeta<core::Namespace>>::all(client);
        let watched = watcher::watcher(api, Config::default()).default_backoff();
        let mut watched = std::pin::pin!(watched);
        let mut listing = HashMap::new();
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                event = watched.next() => event,
            };
            match event {
                None => return,
                Some(Err(error)) => tracing::warn!(%error, "watch of namespaces broke"),
                Some(Ok(Event::Init)) => listing.clear(),
                Some(Ok(Event::InitApply(object))) => {
                    let (name, namespace) = trim(object.metadata);
                    listing.insert(name, namespace);
                }
                Some(Ok(Event::InitDone)) => *self.0.lock() = std::mem::take(&mut listing),
                Some(Ok(Event::Apply(object))) => {
                    let (name, namespace) = trim(object.metadata);
                    self.0.lock().insert(name, namespace);
                }
                Some(Ok(Event::Delete(object))) => {
                    let (name, _) = trim(object.metadata);
                    self.0.lock().remove(&name);
                }
            }
        }
    }
}

fn trim(metadata: ObjectMeta) -> (String, Namespace) {
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.retain(|_, value| value.len() <= LONGEST);
    let namespace = Namespace {
        labels: metadata.labels.unwrap_or_default(),
        annotations,
    };
    (metadata.name.unwrap_or_default(), namespace)
}
