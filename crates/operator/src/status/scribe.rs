//! Writes the statuses that differ, and tells users what is new.
//!
//! One task. It is woken by any change of the world and by any answer of a sidecar, waits
//! [`COALESCE`] so that the answers to a push arrive meanwhile, and then writes only what differs
//! from what the API server has: at rest nothing is written. What it has is known from the watch
//! or from our own last write, whichever is newer.

use super::{
    Standing,
    assess::{Assessment, assess},
    events::{self, Notice},
    writer::{WriteError, Writer},
};
use crate::{fleet::Fleet, lease::Claim, metrics::Metrics, world::World};
use fairtide_api::conditions::{ACCEPTED, CONFLICTED, PROGRAMMED, RESOLVED_REFS, reason};
use fairtide_resolve::{ObjectKey, Warning};
use futures::StreamExt;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// At least this between two rounds of writes.
pub const COALESCE: Duration = Duration::from_millis(200);

/// After a failed write.
const RETRY: Duration = Duration::from_secs(2);

/// After a start or a failover, sidecars get this long to come back before a status says that they
/// are gone.
const GRACE: Duration = Duration::from_secs(30);

/// Writes under way at a time.
const CONCURRENCY: usize = 8;

/// The task that writes statuses.
pub struct Scribe {
    /// What is watched.
    pub world: Arc<Mutex<World>>,
    /// How far the sidecars are.
    pub fleet: Arc<Fleet>,
    /// Where statuses go.
    pub writer: Writer,
    /// Whether this replica writes.
    pub claim: watch::Receiver<Claim>,
    /// Told when a status may have changed.
    pub wake: Arc<Notify>,
    /// Where things are counted.
    pub metrics: Arc<Metrics>,
    /// Fires when the operator ends.
    pub stop: CancellationToken,
}

type ObjectId = (&'static str, ObjectKey);

/// What this replica has written and told.
#[derive(Default)]
struct Written {
    /// By object, its uid, and the `resourceVersion` that our write made.
    statuses: HashMap<ObjectId, (Option<String>, Option<u64>, Standing)>,
    told: BTreeSet<Warning>,
}

/// What became of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// All is written.
    Done,
    /// Something waits for sidecars to come back.
    Held,
    /// Something is to be tried again.
    Failed,
}

// === impl Scribe ===

impl Scribe {
    /// Writes until `stop`.
    pub async fn run(mut self) {
        let mut written = Written::default();
        let mut grace_ends = Instant::now() + GRACE;
        let mut again = None;
        loop {
            let held = self.claim.borrow_and_update().is_held();
            tokio::select! {
                () = self.stop.cancelled() => return,
                changed = self.claim.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // Another may have written meanwhile: the watch says what is there.
                    written = Written::default();
                    grace_ends = Instant::now() + GRACE;
                    self.wake.notify_one();
                    continue;
                }
                () = self.wake.notified(), if held => {}
                () = at(again), if held => {}
            }
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(COALESCE) => {}
            }
            let grace = Instant::now() < grace_ends;
            again = match self.round(&mut written, grace).await {
                Round::Done => None,
                Round::Held => Some(grace_ends),
                Round::Failed => Some(Instant::now() + RETRY),
            };
        }
    }

    /// Writes what differs.
    async fn round(&self, written: &mut Written, grace: bool) -> Round {
        let (assessments, warnings) = self.assess();
        written.keep(&assessments, &warnings);
        let now = Timestamp::now();
        let mut round = Round::Done;
        let mut due = Vec::new();
        let mut notices = Vec::new();
        for mut assessment in assessments {
            let old = written.present(&assessment);
            let new = Standing::renewed(
                old.as_ref(),
                assessment.generation,
                &assessment.findings,
                assessment.counts,
                now,
            );
            let object = (assessment.kind, &assessment.key);
            let about = warnings
                .iter()
                .filter(|warning| (warning.kind, &warning.object) == object);
            for warning in about {
                // After a restart: whoever wrote this generation has been told.
                let is_new = old
                    .as_ref()
                    .is_none_or(|old| old.observed_generation != assessment.generation)
                    || written.statuses.contains_key(&(object.0, object.1.clone()));
                if written.told.insert(warning.clone()) && is_new {
                    notices.push(events::warning(&assessment, warning));
                }
            }
            if old.as_ref().is_some_and(|old| old.same_as(&new)) {
                written.note(&assessment, None, new);
                continue;
            }
            if grace && old.as_ref().is_some_and(|old| only_lost_touch(old, &new)) {
                round = Round::Held;
                continue;
            }
            assessment.old = old;
            due.push((assessment, new));
        }
        let writes = due.into_iter().map(|(assessment, new)| async move {
            if !self.claim.borrow().is_held() {
                return (assessment, new, Err(WriteError::NotOurs));
            }
            let result = self.writer.write(&assessment, &new).await;
            (assessment, new, result)
        });
        let mut writes = futures::stream::iter(writes).buffer_unordered(CONCURRENCY);
        while let Some((assessment, new, result)) = writes.next().await {
            match result {
                Ok(version) => {
                    self.metrics.status_writes.inc();
                    notices.extend(events::notices(&assessment, assessment.old.as_ref(), &new));
                    written.note(&assessment, version, new);
                }
                // The watch is about to say so.
                Err(WriteError::Gone) => {}
                Err(error) => {
                    self.metrics.status_errors.inc();
                    tracing::warn!(kind = assessment.kind, object = %assessment.key, %error, "status not written; tried again");
                    round = Round::Failed;
                }
            }
        }
        self.tell(notices).await;
        round
    }

    async fn tell(&self, notices: Vec<Notice>) {
        futures::stream::iter(&notices)
            .for_each_concurrent(CONCURRENCY, |notice| self.writer.tell(notice))
            .await;
    }

    fn assess(&self) -> (Vec<Assessment>, Vec<Warning>) {
        let world = self.world.lock();
        let mut assessments = Vec::new();
        let mut warnings = Vec::new();
        for (name, namespace) in world.namespaces() {
            assessments.extend(assess(name, namespace, |pod| self.fleet.progress_of(pod)));
            if let Some(resolved) = namespace.resolved() {
                warnings.extend(resolved.warnings.iter().cloned());
            }
        }
        (assessments, warnings)
    }
}

// === impl Written ===

impl Written {
    /// What the API server has, as far as we know.
    fn present(&self, assessment: &Assessment) -> Option<Standing> {
        let id = (assessment.kind, assessment.key.clone());
        let ours = self.statuses.get(&id);
        let ours = ours.filter(|(uid, ..)| *uid == assessment.uid);
        let read = number(assessment.resource_version.as_deref());
        match ours {
            // Ours is what was read or newer, or nothing can be read (files, broken objects).
            Some((_, version, standing))
                if read.is_none() || *version >= read || !assessment.readable =>
            {
                Some(standing.clone())
            }
            _ => assessment.old.clone(),
        }
    }

    fn note(&mut self, assessment: &Assessment, version: Option<String>, standing: Standing) {
        let id = (assessment.kind, assessment.key.clone());
        let version = match number(version.as_deref()) {
            Some(version) => Some(version),
            None => number(assessment.resource_version.as_deref()),
        };
        self.statuses
            .insert(id, (assessment.uid.clone(), version, standing));
    }

    /// Forgets objects and warnings that are gone.
    fn keep(&mut self, assessments: &[Assessment], warnings: &[Warning]) {
        let present: HashSet<ObjectId> = assessments
            .iter()
            .map(|assessment| (assessment.kind, assessment.key.clone()))
            .collect();
        self.statuses.retain(|id, _| present.contains(id));
        let warnings: BTreeSet<&Warning> = warnings.iter().collect();
        self.told.retain(|warning| warnings.contains(warning));
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Whether the only news is that sidecars aren't connected (yet).
fn only_lost_touch(old: &Standing, new: &Standing) -> bool {
    let said = |standing: &Standing, type_| {
        let found = standing.condition(type_)?;
        Some((found.status.clone(), found.reason.clone()))
    };
    let same = |type_| said(old, type_) == said(new, type_);
    let (Some((before, _)), Some((_, after))) = (said(old, PROGRAMMED), said(new, PROGRAMMED))
    else {
        return false;
    };
    old.observed_generation == new.observed_generation
        && [ACCEPTED, RESOLVED_REFS, CONFLICTED].into_iter().all(same)
        && before == "True"
        && [
            reason::NO_ENDPOINTS,
            reason::PENDING,
            reason::PARTIALLY_PROGRAMMED,
        ]
        .contains(&after.as_str())
}

/// Resource versions of one kind are ordered numbers; where they aren't, what was read counts.
fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Counts, standing::finding};
    use fairtide_api::conditions::READY;
    use fairtide_resolve::Status;

    fn standing(generation: i64, refs: Status, programmed: Status, why: &'static str) -> Standing {
        let findings = [
            finding(ACCEPTED, Status::True, reason::ACCEPTED, ""),
            finding(RESOLVED_REFS, refs, reason::RESOLVED_REFS, ""),
            finding(PROGRAMMED, programmed, why, ""),
            finding(READY, programmed, why, ""),
        ];
        let now = Timestamp::UNIX_EPOCH;
        Standing::renewed(None, generation, &findings, Counts::Pools(None), now)
    }

    #[test]
    fn sidecars_that_are_not_back_yet_are_no_news_but_all_else_is() {
        let programmed = standing(1, Status::True, Status::True, reason::PROGRAMMED);
        let is_held = |generation, refs, status, why| {
            only_lost_touch(&programmed, &standing(generation, refs, status, why))
        };
        let unknown = Status::Unknown;
        assert!(is_held(1, Status::True, unknown, reason::NO_ENDPOINTS));
        assert!(is_held(1, Status::True, Status::False, reason::PENDING));
        // An edit, a refusal, a reference that is gone.
        assert!(!is_held(2, Status::True, unknown, reason::NO_ENDPOINTS));
        assert!(!is_held(1, Status::True, Status::False, reason::REJECTED));
        assert!(!is_held(1, Status::False, unknown, reason::NO_ENDPOINTS));
        let pending = standing(1, Status::True, Status::False, reason::PENDING);
        let none = standing(1, Status::True, unknown, reason::NO_ENDPOINTS);
        assert!(!only_lost_touch(&pending, &none));
    }
}
