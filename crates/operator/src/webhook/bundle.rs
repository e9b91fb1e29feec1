//! Tells the API server whom to trust when it asks the webhook: `caBundle` of our own entries.
//!
//! Written by server-side apply under a field manager of its own, which owns these fields and no
//! others. So the manifest in Git leaves `caBundle` out and shows no difference, and nothing else
//! of the object is ever changed. Whoever clears or replaces the bundle gets it back at once.
//!
//! Every replica watches the object, so that each knows whom API servers trust; the holder of the
//! lease writes it.

use crate::{causes::causes, lease::Claim};
use futures::StreamExt;
use k8s_openapi::{
    ByteString, api::admissionregistration::v1::MutatingWebhookConfiguration as Configuration,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    runtime::watcher::{self, watch_object},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The object, as `manifests/webhook.yaml` names it.
pub const CONFIGURATION: &str = "fairtide";

/// Our entries end with this.
const OURS: &str = ".inject.fairtide.dev";

/// Owner of the bundles.
const MANAGER: &str = "fairtide-operator-ca";

/// After a write or watch that failed.
const RETRY: Duration = Duration::from_secs(2);

/// Keeps the bundle in the object while this replica holds the lease.
pub struct Bundle {
    /// A client that may watch and patch the object.
    pub client: Client,
    /// Whom to trust, PEM; `None`: somebody else writes it.
    pub trusted: watch::Receiver<Option<Arc<str>>>,
    /// Whether this replica may write.
    pub claim: watch::Receiver<Claim>,
    /// Where it is published what the object says.
    pub entries: watch::Sender<Entries>,
    /// Fires when the operator ends.
    pub stop: CancellationToken,
}

/// The bundles of our entries, as the object was last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Entries {
    /// It wasn't.
    #[default]
    Unknown,
    /// One for each of our entries; none where the object isn't installed.
    Seen(Arc<[Vec<u8>]>),
}

// === impl Bundle ===

impl Bundle {
    /// Keeps it until `stop`.
    pub async fn keep(mut self) {
        let api = Api::<Configuration>::all(self.client.clone());
        let stop = self.stop.clone();
        let mut watched = std::pin::pin!(watch_object(api.clone(), CONFIGURATION));
        let mut latest: Option<Configuration> = None;
        let mut quiet = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = self.claim.changed() => if changed.is_err() { return },
                changed = self.trusted.changed() => if changed.is_err() { return },
                seen = watched.next() => match seen {
                    None => return,
                    Some(Ok(object)) => {
                        quiet = false;
                        if object.is_none() {
                            tracing::warn!(
                                "MutatingWebhookConfiguration {CONFIGURATION} is not installed: no pod gets a sidecar; kubectl apply -f manifests/webhook.yaml"
                            );
                        }
                        self.entries.send_replace(Entries::of(object.as_ref()));
                        latest = object;
                    }
                    Some(Err(error)) => {
                        if !std::mem::replace(&mut quiet, true) {
                            warn(&error);
                        }
                        tokio::time::sleep(RETRY).await;
                        continue;
                    }
                },
            }
            let trusted = self.trusted.borrow_and_update().clone();
            let held = self.claim.borrow_and_update().is_held();
            let Some((object, trusted)) = latest.as_ref().zip(trusted).filter(|_| held) else {
                continue;
            };
            let Some(patch) = patch(object, &trusted) else {
                continue;
            };
            let params = PatchParams::apply(MANAGER).force();
            let patch = Patch::Apply(patch);
            loop {
                let Err(error) = api.patch(CONFIGURATION, &params, &patch).await else {
                    tracing::info!("the API server was told whom to trust");
                    break;
                };
                tracing::warn!(error = causes(&error), "caBundle not written");
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(RETRY) => {}
                }
                // Gone meanwhile: the watch says so. Otherwise there is something newer to write.
                let gone = matches!(&error, kube::Error::Api(status) if status.code == 404);
                let newer = self.trusted.has_changed().unwrap_or(true);
                if gone || newer || !self.claim.borrow().is_held() {
                    break;
                }
            }
        }
    }
}

/// What is to be written; `None` where all is as it should be.
fn patch(object: &Configuration, trusted: &str) -> Option<serde_json::Value> {
    let bundle = ByteString(trusted.as_bytes().to_vec());
    let right = ours(object).all(|(_, present)| present == Some(&bundle));
    if right {
        return None;
    }
    let entries: Vec<_> = ours(object)
        .map(|(name, _)| json!({"name": name, "clientConfig": {"caBundle": bundle}}))
        .collect();
    Some(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION},
        "webhooks": entries,
    }))
}

/// Names and bundles of our entries.
fn ours(object: &Configuration) -> impl Iterator<Item = (&str, Option<&ByteString>)> {
    let all = object.webhooks.iter().flatten();
    let ours = all.filter(|webhook| webhook.name.ends_with(OURS));
    ours.map(|webhook| {
        (
            webhook.name.as_str(),
            webhook.client_config.ca_bundle.as_ref(),
        )
    })
}

fn warn(error: &watcher::Error) {
    tracing::warn!(
        error = causes(error),
        "watch of the webhook's configuration broke"
    );
}

// === impl Entries ===

impl Entries {
    fn of(object: Option<&Configuration>) -> Self {
        let bundles = object.into_iter().flat_map(ours);
        let bundles = bundles.map(|(_, bundle)| bundle.map(|b| b.0.clone()).unwrap_or_default());
        Self::Seen(bundles.collect())
    }

    /// Whether API servers that read the object trust this certificate, at each entry. An object
    /// that isn't there has no entry.
    pub fn all_hold(&self, pem: &str) -> bool {
        let pem = pem.trim().as_bytes();
        match self {
            Self::Unknown => false,
            Self::Seen(bundles) => bundles
                .iter()
                .all(|bundle| bundle.windows(pem.len()).any(|part| part == pem)),
        }
    }
}
