//! Policies from files: the same YAML that `kubectl apply` takes, in one folder, followed as it
//! changes.
//!
//! Editors write files in several steps, and a mounted ConfigMap changes by swapping the symbolic
//! link `..data`. So the folder is watched, not the files, and read as a whole shortly after the
//! last sign of change. A slow look every few seconds catches what the watch doesn't see, as on
//! network mounts.

use crate::{
    in_force::{PolicySeat, Source},
    metrics::Metrics,
};
use fairtide_api::conditions::ACCEPTED;
use fairtide_policy::Policy;
use fairtide_resolve::{
    Manifests, ObjectKey, Resolved, ResolvedPool, Unreadable, read_manifests, resolve,
};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::sync::mpsc;

/// How long the folder must be quiet before it is read.
const QUIET: Duration = Duration::from_millis(50);

/// A folder that never is quiet is read after so many signs.
const MAX_SIGNS: usize = 20;

/// How often it is read without a sign.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Why files give no policy.
#[derive(Debug, thiserror::Error)]
pub enum ManifestsError {
    /// The folder or a file in it can't be read.
    #[error("{0}: {cause}", cause = .0.source)]
    Unreadable(#[from] Unreadable),
    /// No file has the pool.
    #[error("no InferencePool {0} in {folder}{1}", folder = .2.display())]
    NoPool(ObjectKey, Faults, PathBuf),
    /// The pool is there and invalid.
    #[error("InferencePool {0}: {1}")]
    InvalidPool(ObjectKey, String),
    /// The policy that follows can't be obeyed.
    #[error(transparent)]
    Policy(#[from] fairtide_policy::PolicyError),
}

/// What is wrong with documents, for the end of a message.
#[derive(Debug, Default)]
pub struct Faults(Vec<String>);

/// What there is to say about files that do give a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Objects that are left out, or stay as they were before.
    refused: Vec<String>,
    /// Objects that are obeyed, but most likely not as meant.
    odd: Vec<String>,
}

/// A folder of manifests, and what was read of it last.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    pool: ObjectKey,
    last: Manifests,
    /// What was found at the last reading: told once, not every few seconds.
    told: Findings,
}

// === impl Faults ===

impl std::fmt::Display for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for fault in &self.0 {
            write!(f, "; {fault}")?;
        }
        Ok(())
    }
}

// === impl Folder ===

impl Folder {
    pub(crate) fn new(path: PathBuf, pool: ObjectKey) -> Self {
        Self {
            path,
            pool,
            last: Manifests::default(),
            told: Findings::default(),
        }
    }

    /// Reads the folder: the policy of the pool, and what else there is to say.
    pub(crate) fn read(&mut self) -> Result<(Policy, Findings), ManifestsError> {
        let read = read_manifests(&self.path)?;
        let refused: Vec<String> = read.errors.iter().map(ToString::to_string).collect();
        let manifests = read.or_last_good(&self.last);
        let resolved = resolve(manifests.pools(), manifests.classes());
        let pool = resolved.pools.iter().find(|pool| pool.key == self.pool);
        let Some(pool) = pool else {
            return Err(ManifestsError::NoPool(
                self.pool.clone(),
                Faults(refused),
                self.path.clone(),
            ));
        };
        let Some(policy) = pool.policy.clone() else {
            return Err(ManifestsError::InvalidPool(self.pool.clone(), why(pool)));
        };
        let mut findings = Findings {
            refused,
            odd: Vec::new(),
        };
        findings.add_classes(&resolved);
        self.last = manifests;
        Ok((policy, findings))
    }

    /// Follows the folder for as long as the process lives.
    pub(crate) async fn follow(mut self, seat: PolicySeat, metrics: Metrics) {
        let (sign, mut signs) = mpsc::channel(1);
        // Dropping the watcher would end the watch.
        let _watcher = watch(&self.path, sign);
        loop {
            let _ = tokio::time::timeout(LOOK_EVERY, signs.recv()).await;
            for _ in 0..MAX_SIGNS {
                if tokio::time::timeout(QUIET, signs.recv()).await.is_err() {
                    break;
                }
            }
            let read = tokio::task::spawn_blocking(move || {
                let result = self.read();
                (self, result)
            });
            let Ok((folder, result)) = read.await else {
                tracing::error!("reading the manifests panicked; they are followed no longer");
                return;
            };
            self = folder;
            let findings = match result {
                Ok((policy, mut findings)) => {
                    findings.refused.extend(put_in_force(&seat, policy).await);
                    findings
                }
                Err(error) => Findings {
                    refused: vec![error.to_string()],
                    odd: Vec::new(),
                },
            };
            self.tell(findings, &metrics);
        }
    }

    fn tell(&mut self, findings: Findings, metrics: &Metrics) {
        if findings == self.told {
            return;
        }
        metrics
            .policies_refused
            .inc_by(findings.refused.len() as u64);
        findings.log();
        self.told = findings;
    }
}

// === impl Findings ===

impl Findings {
    pub(crate) fn log(&self) {
        for fault in &self.refused {
            tracing::error!(fault, "not obeyed; what held before goes on");
        }
        for fault in &self.odd {
            tracing::warn!(fault, "obeyed, but most likely not as meant");
        }
    }

    fn add_classes(&mut self, resolved: &Resolved) {
        for class in &resolved.classes {
            for found in class.conditions.iter().filter(|found| found.is_fault()) {
                let text = format!("TrafficClass {}: {}", class.key, found.message);
                match found.type_ {
                    ACCEPTED => self.refused.push(text),
                    _ => self.odd.push(text),
                }
            }
        }
    }
}

async fn put_in_force(seat: &PolicySeat, policy: Policy) -> Option<String> {
    if seat.load().policy == policy {
        return None;
    }
    let version = policy.version();
    let done = seat.put_in_force(policy, version, Source::Manifests).await;
    done.err().map(|error| error.to_string())
}

fn watch(path: &Path, sign: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let on_change = move |event: notify::Result<notify::Event>| {
        // Our own reading is no change.
        if event.is_ok_and(|event| event.kind.is_access()) {
            return;
        }
        // One sign that stands there is enough.
        let _ = sign.try_send(());
    };
    let watching = notify::recommended_watcher(on_change).and_then(|mut watcher| {
        watcher.watch(path, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    watching
        .inspect_err(|error| {
            tracing::warn!(%error, "can't watch the manifests; reading them every {LOOK_EVERY:?}");
        })
        .ok()
}

fn why(pool: &ResolvedPool) -> String {
    let faults = pool.conditions.iter().filter(|found| found.is_fault());
    let messages: Vec<&str> = faults.map(|found| found.message.as_str()).collect();
    messages.join("; ")
}
