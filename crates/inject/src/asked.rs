//! Whether a pod is to have the sidecar at all.
//!
//! A label on the pod or its namespace asks; a label that forbids wins over one that asks,
//! wherever it is. A namespace's label speaks for many pods, so it is read with sense: only pods
//! that serve an engine are meant, and no Jobs.

use crate::{
    context::Context,
    names::{DISABLED, ENABLED, INJECT_LABEL},
    pod::Pod,
    refusal::Refusal,
    wishes::LwsRoles,
};

/// Why a pod is left alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skip {
    /// Nobody asked.
    #[error("neither the pod nor its namespace has the label {INJECT_LABEL}: enabled")]
    NotAsked,
    /// The pod's label forbids it.
    #[error("the pod has the label {INJECT_LABEL}: disabled")]
    PodForbids,
    /// The namespace's label forbids it.
    #[error("the namespace has the label {INJECT_LABEL}: disabled")]
    NamespaceForbids,
    /// The kubelet's own pod, which nothing can change.
    #[error("the pod is a node's own (a mirror pod)")]
    MirrorPod,
    /// A Job's pod, and only the namespace asks.
    #[error(
        "the pod belongs to a Job; to have it injected, label the pod itself {INJECT_LABEL}: enabled"
    )]
    Job,
    /// A pod without an engine, and only the namespace asks.
    #[error("the pod serves no known engine and uses no accelerator")]
    NoEngine,
    /// A worker of a LeaderWorkerSet.
    #[error("the pod is a worker of a LeaderWorkerSet; where workers serve too, write {key}: All", key = crate::names::LWS_ROLES)]
    LwsWorker,
    /// An engine that answers no requests itself.
    #[error("the pod's engine serves no requests itself ({what})")]
    Headless {
        /// What says so.
        what: String,
    },
}

// === impl Skip ===

impl Skip {
    /// A fixed word for it, for metric labels.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotAsked => "NotAsked",
            Self::PodForbids | Self::NamespaceForbids => "Forbidden",
            Self::MirrorPod => "MirrorPod",
            Self::Job => "Job",
            Self::NoEngine => "NoEngine",
            Self::LwsWorker => "LwsWorker",
            Self::Headless { .. } => "Headless",
        }
    }
}

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The pod's own label.
    ByPod,
    /// The namespace's.
    ByNamespace,
}

const LWS_NAME: &str = "leaderworkerset.sigs.k8s.io/name";
const LWS_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Who asked, or why the pod is left alone.
pub(crate) fn asked(pod: Pod<'_>, context: &Context) -> Result<Result<Asked, Skip>, Refusal> {
    if pod.annotation(MIRROR).is_some() {
        return Ok(Err(Skip::MirrorPod));
    }
    let by_namespace = context.namespace.labels.get(INJECT_LABEL);
    let by_namespace = by_namespace.map(String::as_str);
    Ok(match (pod.label(INJECT_LABEL), by_namespace) {
        (Some(DISABLED), _) => Err(Skip::PodForbids),
        (_, Some(DISABLED)) => Err(Skip::NamespaceForbids),
        (Some(ENABLED), _) => Ok(Asked::ByPod),
        (Some(value), _) => {
            let value = value.to_owned();
            return Err(Refusal::BadLabel { value });
        }
        (None, Some(ENABLED)) if pod.has_owner("Job") => Err(Skip::Job),
        (None, Some(ENABLED)) => Ok(Asked::ByNamespace),
        (None, _) => Err(Skip::NotAsked),
    })
}

/// Whether the pod belongs to a LeaderWorkerSet, which counts a restart of any container as the
/// failure of the whole group.
pub(crate) fn in_lws(pod: Pod<'_>) -> bool {
    pod.label(LWS_NAME).is_some()
}

/// Whether it is a worker there. A leader has its index from its template; a worker gets its own
/// from a webhook, which may run after this one, so a pod without an index is a worker.
pub(crate) fn is_lws_worker(pod: Pod<'_>, roles: LwsRoles) -> bool {
    in_lws(pod) && roles == LwsRoles::Leader && pod.label(LWS_INDEX) != Some("0")
}
