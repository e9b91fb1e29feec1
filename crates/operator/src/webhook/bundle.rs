//! Tells the API server whom to trust when it asks the webhook: `caBundle` of our own entries.
//!
//! Written by server-side apply under a field manager of its own, which owns these fields and no
//! others. So the manifest in Git leaves `caBundle` out and shows no difference, and nothing else
//! of the object is ever changed. Whoever clears or replaces the bundle gets it back at once.

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
use std::time::Duration;
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
    /// Whom to trust, PEM.
    pub ca_pem: String,
    /// Whether this replica may write.
    pub claim: watch::Receiver<Claim>,
    /// Fires when the operator ends.
    pub stop: CancellationToken,
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
                seen = watched.next() => match seen {
                    None => return,
                    Some(Ok(object)) => {
                        quiet = false;
                        if object.is_none() {
                            tracing::warn!(
                                "MutatingWebhookConfiguration {CONFIGURATION} is not installed: no pod gets a sidecar; kubectl apply -f manifests/webhook.yaml"
                            );
                        }
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
            let held = self.claim.borrow_and_update().is_held();
            let Some(object) = latest.as_ref().filter(|_| held) else {
                continue;
            };
            while let Some(patch) = self.patch(object) {
                let params = PatchParams::apply(MANAGER).force();
                match api
                    .patch(CONFIGURATION, &params, &Patch::Apply(patch))
                    .await
                {
                    Ok(_) => {
                        tracing::info!("the API server was told whom to trust");
                        break;
                    }
                    Err(error) => {
                        tracing::warn!(error = causes(&error), "caBundle not written");
                        tokio::select! {
                            () = stop.cancelled() => return,
                            () = tokio::time::sleep(RETRY) => {}
                        }
                        // Gone or changed meanwhile: the watch says so.
                        if matches!(&error, kube::Error::Api(status) if status.code == 404) {
                            break;
                        }
                        if !self.claim.borrow().is_held() {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// What is to be written; `None` where all is as it should be.
    fn patch(&self, object: &Configuration) -> Option<serde_json::Value> {
        let ours = || {
            let all = object.webhooks.iter().flatten();
            all.filter(|webhook| webhook.name.ends_with(OURS))
        };
        let bundle = ByteString(self.ca_pem.clone().into_bytes());
        let right = ours().all(|webhook| webhook.client_config.ca_bundle.as_ref() == Some(&bundle));
        if right {
            return None;
        }
        let entries: Vec<_> = ours()
            .map(|webhook| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}}))
            .collect();
        Some(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": CONFIGURATION},
            "webhooks": entries,
        }))
    }
}

fn warn(error: &watcher::Error) {
    tracing::warn!(
        error = causes(error),
        "watch of the webhook's configuration broke"
    );
}
