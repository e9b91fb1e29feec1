//! Reads and writes the Lease object for [`decide`](super::decide), and tells the others by a
//! watch channel whether it is ours.
//!
//! Every write carries the `resourceVersion` that was read, so of two that write at once one gets
//! a conflict. A request that hangs can't stretch the claim: each step ends at the renew deadline.

use super::{Claim, Decision, Observed, Timings, decide};
use fairtide_api::names::OPERATOR_LEASE;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use rand::Rng;
use std::time::Duration;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// Where the holder's channel is, for the other replicas to point sidecars at.
pub const ADDRESS_ANNOTATION: &str = "fairtide.dev/channel-address";

/// A vacating holder waits no longer than this for the API server.
const VACATE_TIMEOUT: Duration = Duration::from_secs(3);

/// One candidate for the lease.
pub struct Keeper {
    api: Api<Lease>,
    /// Unique to this process, so that a restarted replica is another candidate.
    identity: String,
    address: Option<String>,
    timings: Timings,
    claim: watch::Sender<Claim>,
    seen: Option<Seen>,
    /// When our own record was last written; set while we hold.
    renewed_at: Option<Instant>,
}

struct Seen {
    spec: LeaseSpec,
    observed: Observed,
}

// === impl Keeper ===

impl Keeper {
    /// A candidate in `namespace`. `host` is for people who look at the Lease; `address` is where
    /// this replica's channel can be reached.
    pub fn new(
        client: Client,
        namespace: &str,
        host: &str,
        address: Option<String>,
        timings: Timings,
    ) -> (Self, watch::Receiver<Claim>) {
        let (claim, receiver) = watch::channel(Claim::Unknown);
        let suffix: u32 = rand::rng().random();
        let keeper = Self {
            api: Api::namespaced(client, namespace),
            identity: format!("{host}_{suffix:08x}"),
            address,
            timings,
            claim,
            seen: None,
            renewed_at: None,
        };
        (keeper, receiver)
    }

    /// Competes for the lease until `stop`, then vacates it if it is ours.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.round() => {}
            }
        }
        self.vacate().await;
    }

    /// One look at the record, then the wait for the next.
    async fn round(&mut self) {
        let deadline = self.deadline();
        match tokio::time::timeout_at(deadline, self.step()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => report(&error),
            Err(_) => tracing::warn!("the API server doesn't answer about the lease"),
        }
        if Instant::now() >= self.deadline() {
            if self.renewed_at.take().is_some() {
                tracing::warn!(
                    "the lease could not be renewed in time; nothing is pushed or written"
                );
            }
            self.publish(Claim::Unknown);
        }
        let wait = self
            .timings
            .retry
            .mul_f64(rand::rng().random_range(0.9..1.1));
        tokio::time::sleep_until((Instant::now() + wait).min(self.deadline())).await;
    }

    /// When a claim that isn't renewed ends; for others, when a step has taken too long.
    fn deadline(&self) -> Instant {
        self.renewed_at.unwrap_or_else(Instant::now) + self.timings.renew_deadline
    }

    async fn step(&mut self) -> Result<(), kube::Error> {
        let lease = self.api.get_opt(OPERATOR_LEASE).await?;
        let now = Instant::now();
        self.observe(lease.as_ref(), now);
        let observed = self.seen.as_ref().map(|seen| &seen.observed);
        let held = self.renewed_at.is_some();
        match decide(observed, &self.identity, held, now) {
            Decision::Acquire | Decision::Renew => {
                let written = match lease {
                    None => {
                        let new = self.record(Lease {
                            metadata: ObjectMeta {
                                name: Some(OPERATOR_LEASE.to_owned()),
                                ..ObjectMeta::default()
                            },
                            spec: None,
                        });
                        self.api.create(&PostParams::default(), &new).await
                    }
                    Some(old) => {
                        let new = self.record(old);
                        self.api
                            .replace(OPERATOR_LEASE, &PostParams::default(), &new)
                            .await
                    }
                };
                match written {
                    Ok(written) => {
                        self.observe(Some(&written), Instant::now());
                        // Counted from before the request: the others can't have seen it earlier.
                        self.renewed_at = Some(now);
                        self.publish(Claim::Held);
                    }
                    // Another was faster; the next look shows who.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    Err(error) => return Err(error),
                }
            }
            Decision::Wait(_) | Decision::Lost => {
                self.renewed_at = None;
                let address = lease
                    .as_ref()
                    .and_then(|lease| lease.metadata.annotations.as_ref())
                    .and_then(|annotations| annotations.get(ADDRESS_ANNOTATION))
                    .cloned();
                let identity = observed.and_then(|o| o.holder.clone()).unwrap_or_default();
                self.publish(Claim::Other { identity, address });
            }
        }
        Ok(())
    }

    /// Notes the record and, where it differs from the one seen before, the time.
    fn observe(&mut self, lease: Option<&Lease>, now: Instant) {
        let Some(lease) = lease else {
            self.seen = None;
            return;
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if self.seen.as_ref().is_some_and(|seen| seen.spec == spec) {
            return;
        }
        let duration = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(self.timings.duration, Duration::from_secs);
        self.seen = Some(Seen {
            observed: Observed {
                holder: spec.holder_identity.clone(),
                duration,
                changed_at: now,
            },
            spec,
        });
    }

    /// `lease` with ourselves as its holder.
    fn record(&self, mut lease: Lease) -> Lease {
        let now = MicroTime(Timestamp::now());
        let old = lease.spec.take().unwrap_or_default();
        let ours = old.holder_identity.as_deref() == Some(self.identity.as_str());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(
                i32::try_from(self.timings.duration.as_secs().max(1)).unwrap_or(i32::MAX),
            ),
            acquire_time: old
                .acquire_time
                .filter(|_| ours)
                .or_else(|| Some(now.clone())),
            lease_transitions: Some(old.lease_transitions.unwrap_or(-1) + i32::from(!ours)),
            renew_time: Some(now),
            ..old
        });
        let annotations = lease.metadata.annotations.get_or_insert_default();
        match &self.address {
            Some(address) => annotations.insert(ADDRESS_ANNOTATION.to_owned(), address.clone()),
            None => annotations.remove(ADDRESS_ANNOTATION),
        };
        lease
    }

    fn publish(&self, claim: Claim) {
        self.claim.send_if_modified(|present| {
            if *present == claim {
                return false;
            }
            match &claim {
                Claim::Held => tracing::info!(identity = %self.identity, "holds the lease"),
                Claim::Other { identity, .. } => {
                    tracing::info!(holder = %identity, "another replica holds the lease");
                }
                Claim::Unknown => {}
            }
            *present = claim;
            true
        });
    }

    /// Gives the lease back, so that another takes over without waiting for it to run out.
    async fn vacate(&mut self) {
        let held = self.renewed_at.take().is_some();
        self.publish(Claim::Unknown);
        if !held {
            return;
        }
        let given_back = tokio::time::timeout(VACATE_TIMEOUT, async {
            let mut lease = self.api.get(OPERATOR_LEASE).await?;
            let ours = lease
                .spec
                .as_mut()
                .filter(|spec| spec.holder_identity.as_deref() == Some(self.identity.as_str()));
            let Some(spec) = ours else {
                return Ok(());
            };
            spec.holder_identity = None;
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            if let Some(annotations) = &mut lease.metadata.annotations {
                annotations.remove(ADDRESS_ANNOTATION);
            }
            self.api
                .replace(OPERATOR_LEASE, &PostParams::default(), &lease)
                .await
                .map(|_| ())
        })
        .await;
        match given_back {
            Ok(Ok(())) => tracing::info!("lease vacated"),
            Ok(Err(error)) => report(&error),
            Err(_) => tracing::warn!("the lease could not be vacated; it runs out by itself"),
        }
    }
}

fn report(error: &kube::Error) {
    match error {
        kube::Error::Api(status) if status.code == 403 => tracing::error!(
            %error,
            "not allowed to use the lease; grant get, create and update on leases (coordination.k8s.io) in the operator's namespace"
        ),
        _ => tracing::warn!(%error, "lease not read or written"),
    }
}
