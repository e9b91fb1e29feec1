//! The webhook that puts sidecars into pods: the API server asks for each pod that opted in, and
//! gets a patch, or a sentence that says what to write instead.
//!
//! Every replica serves it, with or without the lease: an answer depends on nothing but the pod
//! and what this replica has seen. What it hasn't seen yet it doesn't wait for. A pod that comes
//! before its pool is known gets the sidecar without limits, and is bound by the channel later.
//! Nothing is written and no call is made, so a dry run is like any other.

pub mod bundle;
pub mod cert_dir;
mod namespaces;
mod review;
mod server;

pub use namespaces::Namespaces;
pub use review::Answer;

use crate::{
    channel::ca::Authorities,
    metrics::{Admission, Metrics},
    world::World,
};
use arc_swap::ArcSwapOption;
use fairtide_inject::{Context, Operator, Outcome, Pool, PoolSettings, ServerVersion, inject};
use parking_lot::Mutex;
use review::Review;
use serde_json::Value;
use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// Where the API server asks.
pub const PATH: &str = "/inject";

/// Between two looks at the API server's version: it may be upgraded under us.
const VERSION_EVERY: Duration = Duration::from_secs(600);

/// The same where it didn't answer.
const VERSION_RETRY: Duration = Duration::from_secs(5);

/// What the webhook needs to be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the API server reaches it.
    pub listen: SocketAddr,
    /// Image of the sidecars that it puts in.
    pub sidecar_image: String,
    /// Where those reach the channel: an `https` URL. Unset: the operator's Service.
    pub channel_url: Option<String>,
    /// Where its certificate is; `None`: it has one of the operator's own authorities.
    pub cert_dir: Option<PathBuf>,
}

/// What an answer depends on.
pub struct Webhook {
    /// Pools and classes.
    pub world: Arc<Mutex<World>>,
    /// Labels and annotations of namespaces.
    pub namespaces: Namespaces,
    /// Image of the sidecars.
    pub sidecar_image: String,
    /// Where those find the channel.
    pub channel_url: String,
    /// Whom they trust.
    pub authorities: watch::Receiver<Arc<Authorities>>,
    /// The API server's version, once known.
    pub kubernetes: ArcSwapOption<ServerVersion>,
    /// Where things are counted.
    pub metrics: Arc<Metrics>,
    /// Fires when the operator ends.
    pub stop: CancellationToken,
}

// === impl Webhook ===

impl Webhook {
    /// The answer to an AdmissionReview. `Err`: it is none.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn answer(&self, body: &[u8]) -> Result<Answer, String> {
        let started = Instant::now();
        let review = Review::read(body)?;
        let context = self.context(&review);
        let answer = match inject(&review.pod, &context) {
            Ok(injection) => {
                let (result, reason) = match &injection.outcome {
                    Outcome::Injected(_) => ("injected", ""),
                    Outcome::Kept(_) => ("kept", ""),
                    Outcome::Skipped(skip) => ("skipped", skip.reason()),
                };
                self.count(result, reason);
                Answer::allowed(review.uid, &injection)
            }
            Err(refusal) => {
                self.count("refused", refusal.reason());
                tracing::info!(
                    namespace = review.namespace,
                    pod = review.pod_name(),
                    %refusal,
                    "pod refused"
                );
                Answer::refused(review.uid, &refusal)
            }
        };
        let taken = started.elapsed().as_secs_f64();
        self.metrics.admission_seconds.observe(taken);
        Ok(answer)
    }

    fn count(&self, result: &'static str, reason: &'static str) {
        let label = Admission { result, reason };
        self.metrics.admissions.get_or_create(&label).inc();
    }

    fn context(&self, review: &Review) -> Context {
        Context {
            namespace: self.namespaces.get(&review.namespace),
            pool: self.pool(&review.namespace, &labels(&review.pod)),
            operator: Operator {
                sidecar_image: self.sidecar_image.clone(),
                channel_url: self.channel_url.clone(),
                channel_ca_pem: self.authorities.borrow().trust().pem.clone(),
                token_audience: fairtide_api::names::TOKEN_AUDIENCE.to_owned(),
                kubernetes: self.kubernetes.load().as_deref().copied(),
            },
        }
    }

    /// The pool that selects the pod: the same that the pod is bound to once it runs.
    fn pool(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Option<Pool> {
        let resolved = {
            let world = self.world.lock();
            world.namespace(namespace)?.resolved()?.clone()
        };
        let pool = resolved.pool_of(namespace, labels)?;
        let policy = pool.policy.as_ref();
        Some(Pool {
            namespace: pool.key.namespace.clone(),
            name: pool.key.name.clone(),
            target_ports: pool.target_port.into_iter().collect(),
            engine: None,
            settings: PoolSettings::default(),
            policy: policy.and_then(|policy| serde_json::to_value(policy).ok()),
        })
    }

    /// Asks for the API server's version, now and then.
    pub async fn follow_version(self: Arc<Self>, client: kube::Client) {
        loop {
            let wait = match client.apiserver_version().await {
                Ok(info) => {
                    let version = version(&info.major, &info.minor);
                    self.kubernetes.store(version.map(Arc::new));
                    VERSION_EVERY
                }
                Err(error) => {
                    tracing::debug!(%error, "version of the API server not known");
                    VERSION_RETRY
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

fn labels(pod: &Value) -> BTreeMap<String, String> {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object);
    let texts = labels.into_iter().flatten().filter_map(|(key, value)| {
        let value = value.as_str()?;
        Some((key.clone(), value.to_owned()))
    });
    texts.collect()
}

/// Some clouds write the minor version as `33+`.
fn version(major: &str, minor: &str) -> Option<ServerVersion> {
    let minor = minor.trim_end_matches(|c: char| !c.is_ascii_digit());
    Some(ServerVersion {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}

#[cfg(test)]
mod tests;
