//! The pods: which policy each should have, and how far its sidecar is.
//!
//! The world's task sets what each pod should have; the channel takes it from there, one
//! [`Link`] per connected sidecar, and records what the sidecar answers; status and metrics read
//! it. A pod whose pool goes away keeps the policy that it had: nothing is ever taken back.

use crate::metrics::Metrics;
use bytes::Bytes;
use fairtide_policy::{Message, PROTOCOL_VERSION, Policy, Report};
use fairtide_resolve::ObjectKey;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// A policy as it is pushed. Shared by all pods of a pool, so that it is written out once.
#[derive(Debug)]
pub struct Push {
    /// [`Policy::version`].
    pub version: String,
    /// The snapshot message, with its line end.
    pub line: Bytes,
    /// When the policy became what the pods should have.
    pub since: Instant,
}

/// All pods that the operator knows.
pub struct Fleet {
    pods: Mutex<HashMap<ObjectKey, Pod>>,
    next_link: AtomicU64,
    /// Bumped when a pod becomes known, for sidecars that are faster than our watch.
    arrivals: watch::Sender<u64>,
    /// Told when an answer of a sidecar may change a status.
    answered: Arc<Notify>,
    metrics: Arc<Metrics>,
}

struct Pod {
    /// Unknown for pods from files.
    uid: Option<Arc<str>>,
    policy: watch::Sender<Option<Arc<Push>>>,
    link: Option<OpenLink>,
    progress: Progress,
}

struct OpenLink {
    id: u64,
    since: Instant,
    superseded: CancellationToken,
}

/// How far the sidecar of a pod is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Whether its channel is open.
    pub connected: bool,
    /// The sidecar's own version, from its last hello.
    pub sidecar_version: Option<Arc<str>>,
    /// The version that was last written to it.
    pub sent: Option<Arc<str>>,
    /// The version that it last said to be in force.
    pub acked: Option<Arc<str>>,
    /// The version that it last refused, and why. Gone once a later one is in force.
    pub nacked: Option<Nack>,
    /// The version of the authorities that it last said to trust. An older sidecar never does.
    pub trusts: Option<Arc<str>>,
    /// Its last figures.
    pub report: Option<Arc<Report>>,
}

/// A refusal by a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    /// The version that was refused.
    pub version: Arc<str>,
    /// What the sidecar says is wrong with it.
    pub reason: Arc<str>,
}

/// One open channel. Dropping it says that the sidecar has gone.
pub struct Link {
    fleet: Arc<Fleet>,
    pod: ObjectKey,
    id: u64,
    /// What the pod should have.
    pub policy: watch::Receiver<Option<Arc<Push>>>,
    /// Fires when a newer channel of the same pod has taken over, or the pod is gone.
    pub superseded: CancellationToken,
}

/// Why a pod's channel can't be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No such pod.
    Pod,
    /// There is another pod of that name.
    Uid,
}

// === impl Push ===

impl Push {
    /// `policy` as it is pushed from `since` on.
    pub fn new(policy: Policy, since: Instant) -> Self {
        let version = policy.version();
        let message = Message::Snapshot {
            v: PROTOCOL_VERSION,
            version: version.clone(),
            policy: Box::new(policy),
        };
        let mut line = serde_json::to_vec(&message).expect("a policy has only string keys");
        line.push(b'\n');
        Self {
            version,
            line: line.into(),
            since,
        }
    }
}

// === impl Fleet ===

impl Fleet {
    /// No pods yet. `answered` is told whenever a sidecar's answer may change a status.
    pub fn new(answered: Arc<Notify>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            pods: Mutex::default(),
            next_link: AtomicU64::new(0),
            arrivals: watch::Sender::new(0),
            answered,
            metrics,
        })
    }

    /// The pod exists, and should have `push`; `None`: no pool selects it, so it keeps what it
    /// has. A new `uid` is a new pod of the same name: its sidecar starts afresh.
    pub fn set(&self, key: &ObjectKey, uid: Option<&Arc<str>>, push: Option<&Arc<Push>>) {
        let mut pods = self.pods.lock();
        let known = pods.get(key).is_some_and(|pod| pod.uid.as_ref() == uid);
        if !known {
            let new = Pod {
                uid: uid.cloned(),
                policy: watch::Sender::new(push.cloned()),
                link: None,
                progress: Progress::default(),
            };
            if let Some(old) = pods.insert(key.clone(), new) {
                self.forget(old);
            }
            self.metrics.pods_known.set(pods.len() as i64);
            self.arrivals.send_modify(|count| *count += 1);
            return;
        }
        if let (Some(pod), Some(push)) = (pods.get(key), push) {
            pod.policy.send_if_modified(|present| {
                let same = present.as_ref().is_some_and(|p| p.version == push.version);
                if !same {
                    *present = Some(push.clone());
                }
                !same
            });
        }
    }

    /// The pod is gone, and so is its channel.
    pub fn remove(&self, key: &ObjectKey) {
        let mut pods = self.pods.lock();
        if let Some(pod) = pods.remove(key) {
            self.forget(pod);
        }
        self.metrics.pods_known.set(pods.len() as i64);
    }

    fn forget(&self, pod: Pod) {
        if let Some(link) = pod.link {
            link.superseded.cancel();
            self.metrics.pods_connected.dec();
        }
    }

    /// Opens the channel of a pod, once it is known, and closes an older one of the same pod.
    ///
    /// # Errors
    /// It isn't known within `patience`.
    pub async fn connect(
        self: &Arc<Self>,
        key: &ObjectKey,
        uid: Option<&str>,
        patience: Duration,
    ) -> Result<Link, Missing> {
        let mut arrivals = self.arrivals.subscribe();
        let deadline = Instant::now() + patience;
        loop {
            let missing = match self.try_connect(key, uid) {
                Ok(link) => return Ok(link),
                Err(missing) => missing,
            };
            let arrived = tokio::time::timeout_at(deadline, arrivals.changed()).await;
            if !matches!(arrived, Ok(Ok(()))) {
                return Err(missing);
            }
        }
    }

    fn try_connect(self: &Arc<Self>, key: &ObjectKey, uid: Option<&str>) -> Result<Link, Missing> {
        let mut pods = self.pods.lock();
        let pod = pods.get_mut(key).ok_or(Missing::Pod)?;
        if uid.is_some_and(|uid| pod.uid.as_deref() != Some(uid)) {
            return Err(Missing::Uid);
        }
        let id = self.next_link.fetch_add(1, Ordering::Relaxed);
        let superseded = CancellationToken::new();
        let link = OpenLink {
            id,
            since: Instant::now(),
            superseded: superseded.clone(),
        };
        match pod.link.replace(link) {
            Some(older) => older.superseded.cancel(),
            None => {
                self.metrics.pods_connected.inc();
            }
        }
        pod.progress = Progress {
            connected: true,
            report: pod.progress.report.take(),
            ..Progress::default()
        };
        self.answered.notify_one();
        Ok(Link {
            fleet: self.clone(),
            pod: key.clone(),
            id,
            policy: pod.policy.subscribe(),
            superseded,
        })
    }

    /// How far one pod is.
    pub fn progress_of(&self, key: &ObjectKey) -> Progress {
        let pods = self.pods.lock();
        pods.get(key)
            .map(|pod| pod.progress.clone())
            .unwrap_or_default()
    }

    /// How far each pod is.
    pub fn progress(&self) -> HashMap<ObjectKey, Progress> {
        let pods = self.pods.lock();
        pods.iter()
            .map(|(key, pod)| (key.clone(), pod.progress.clone()))
            .collect()
    }

    /// The connected pods whose sidecars haven't said to trust this version of the authorities.
    pub fn not_trusting(&self, version: &str) -> Vec<ObjectKey> {
        let pods = self.pods.lock();
        let waited_for = pods.iter().filter(|(_, pod)| {
            pod.progress.connected && pod.progress.trusts.as_deref() != Some(version)
        });
        waited_for.map(|(key, _)| key.clone()).collect()
    }

    /// Closes all channels; the sidecars open new ones.
    pub fn close_all(&self) {
        for pod in self.pods.lock().values() {
            if let Some(link) = &pod.link {
                link.superseded.cancel();
            }
        }
    }
}

// === impl Link ===

impl Link {
    /// The pod at the other end.
    pub fn pod(&self) -> &ObjectKey {
        &self.pod
    }

    /// The sidecar has said hello.
    pub fn greeted(&self, sidecar_version: String, applied: Option<String>) {
        self.update(|pod| {
            pod.progress.sidecar_version = Some(sidecar_version.into());
            pod.progress.acked = applied.map(Arc::from);
        });
    }

    /// A snapshot was handed to the connection.
    pub fn sent(&self, push: &Push) {
        self.update(|pod| pod.progress.sent = Some(push.version.as_str().into()));
    }

    /// The sidecar says that `version` is in force. Gives how long that took since the policy
    /// became this (or the sidecar connected), when it is the present one and wasn't in force
    /// before.
    pub fn acked(&self, version: String) -> Option<Duration> {
        self.update(|pod| {
            let first = pod.progress.acked.as_deref() != Some(version.as_str());
            let present = pod.policy.borrow();
            let linked = pod.link.as_ref().map(|link| link.since);
            let latency = present
                .as_ref()
                .filter(|push| first && push.version == version)
                .map(|push| {
                    linked
                        .map_or(push.since, |since| since.max(push.since))
                        .elapsed()
                });
            pod.progress.acked = Some(version.into());
            pod.progress.nacked = None;
            latency
        })
        .flatten()
    }

    /// The sidecar refuses `version`.
    pub fn nacked(&self, version: String, reason: String) {
        self.update(|pod| {
            pod.progress.nacked = Some(Nack {
                version: version.into(),
                reason: reason.into(),
            });
        });
    }

    /// The sidecar trusts these authorities.
    pub fn trusting(&self, version: String) {
        self.update(|pod| pod.progress.trusts = Some(version.into()));
    }

    /// The sidecar's figures. They change no status.
    pub fn reported(&self, report: Report) {
        let mut pods = self.fleet.pods.lock();
        if let Some(pod) = self.ours(&mut pods) {
            pod.progress.report = Some(Arc::new(report));
        }
    }

    /// Changes the pod's progress, unless a newer channel has taken over.
    fn update<T>(&self, change: impl FnOnce(&mut Pod) -> T) -> Option<T> {
        let changed = self.ours(&mut self.fleet.pods.lock()).map(change);
        self.fleet.answered.notify_one();
        changed
    }

    fn ours<'a>(&self, pods: &'a mut HashMap<ObjectKey, Pod>) -> Option<&'a mut Pod> {
        let pod = pods.get_mut(&self.pod)?;
        let ours = pod.link.as_ref().is_some_and(|link| link.id == self.id);
        ours.then_some(pod)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut pods = self.fleet.pods.lock();
        // A replaced pod of the same name has left the map with its link still open.
        if let Some(pod) = self.ours(&mut pods) {
            pod.link = None;
            pod.progress.connected = false;
            self.fleet.metrics.pods_connected.dec();
            drop(pods);
            self.fleet.answered.notify_one();
        }
    }
}
