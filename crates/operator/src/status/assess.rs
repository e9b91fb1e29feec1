//! What should be said of the objects of a namespace, from what was resolved and how far the
//! sidecars are. Pure.

use super::{
    Counts, Standing,
    injected::{has_sidecar, injected},
    standing::finding,
};
use crate::{
    fleet::Progress,
    world::{Held, Namespace, Pod, Reported},
};
use fairtide_api::{
    Kind, Mode, PoolPods,
    conditions::{ACCEPTED, PROGRAMMED, READY, RECONCILING, RESOLVED_REFS, STALLED, reason},
};
use fairtide_resolve::{Finding, ObjectKey, ResolvedClass, ResolvedPool, Status};
use std::collections::BTreeMap;

/// Pods that a message names; more would hide what it says.
const NAMED_PODS: usize = 3;

/// Of each pod's reason as much as this.
const REASON_CHARS: usize = 200;

/// What should be said of one object.
#[derive(Clone, Debug)]
pub struct Assessment {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub key: ObjectKey,
    /// Its uid; `None` for one from a file.
    pub uid: Option<String>,
    /// Its `resourceVersion` when it was read.
    pub resource_version: Option<String>,
    /// The generation that this is about.
    pub generation: i64,
    /// Whether the newest object could be read. If not, `old` is about an earlier one.
    pub readable: bool,
    /// What its status said when it was read.
    pub old: Option<Standing>,
    /// What its conditions should be.
    pub findings: Vec<Finding>,
    /// What its numbers should be.
    pub counts: Counts,
}

/// Assesses a namespace. `progress` says how far a pod's sidecar is.
pub fn assess(
    name: &str,
    namespace: &Namespace,
    progress: impl Fn(&ObjectKey) -> Progress,
) -> Vec<Assessment> {
    let Some(resolved) = namespace.resolved() else {
        return Vec::new();
    };
    let mut assessments = Vec::new();
    let mut programmed = BTreeMap::new();
    for (pool, held) in &namespace.pools {
        let key = ObjectKey::new(name, pool);
        let found = resolved.pools.iter().find(|pool| pool.key == key);
        let (finding, pods, without) = match found {
            Some(pool) => pool_programmed(pool, namespace, &progress),
            None => (not_accepted(), PoolPods::default(), Vec::new()),
        };
        let matched = usize::try_from(pods.matched).unwrap_or_default();
        let injected = injected(name, matched, &without);
        programmed.insert(key.clone(), finding.clone());
        let found = found.map(|pool| pool.conditions.as_slice());
        let bypassed = held
            .good
            .as_ref()
            .is_some_and(|pool| pool.spec.mode == Some(Mode::Bypass));
        let mut findings = complete(held, found, finding, bypassed);
        findings.push(injected);
        assessments.push(assessment(key, held, findings, Counts::Pods(Some(pods))));
    }
    for (class, held) in &namespace.classes {
        let key = ObjectKey::new(name, class);
        let found = resolved.classes.iter().find(|class| class.key == key);
        let finding = match found {
            Some(class) => class_programmed(class, &programmed),
            None => not_accepted(),
        };
        let pools = found.map_or(0, |class| class.pools.len());
        let found = found.map(|class| class.conditions.as_slice());
        let findings = complete(held, found, finding, false);
        let counts = Counts::Pools(Some(count(pools)));
        assessments.push(assessment(key, held, findings, counts));
    }
    assessments
}

fn assessment<T: Reported>(
    key: ObjectKey,
    held: &Held<T>,
    findings: Vec<Finding>,
    counts: Counts,
) -> Assessment {
    Assessment {
        kind: T::KIND,
        key,
        uid: held.meta.uid.clone(),
        resource_version: held.meta.resource_version.clone(),
        generation: held.meta.generation.unwrap_or(0),
        readable: held.broken.is_none(),
        old: held.good.as_ref().and_then(T::standing),
        findings,
        counts,
    }
}

/// All conditions of an object: those that were resolved, whether it is programmed, and what
/// follows from both.
fn complete<T: Kind>(
    held: &Held<T>,
    resolved: Option<&[Finding]>,
    programmed: Finding,
    bypassed: bool,
) -> Vec<Finding> {
    let (mut findings, programmed) = match (&held.broken, resolved) {
        (Some(error), _) => (unreadable(error), not_accepted()),
        (None, Some(resolved)) => (resolved.to_vec(), programmed),
        // Held, readable and not resolved: there is no such object.
        (None, None) => (Vec::new(), programmed),
    };
    let fault = |type_: &str| {
        let found = findings.iter().find(|found| found.type_ == type_);
        found.filter(|found| found.is_fault()).cloned()
    };
    let refused = fault(ACCEPTED);
    let dangling = fault(RESOLVED_REFS);
    let ready = match (&refused, &dangling) {
        (Some(accepted), _) => finding(
            READY,
            Status::False,
            reason::NOT_ACCEPTED,
            accepted.message.clone(),
        ),
        (None, Some(refs)) => finding(
            READY,
            Status::False,
            reason::REFS_NOT_RESOLVED,
            refs.message.clone(),
        ),
        (None, None) if bypassed && programmed.status == Status::True => finding(
            READY,
            Status::True,
            reason::BYPASSED,
            "spec.mode is Bypass: requests are forwarded at once, whatever the classes say",
        ),
        (None, None) => finding(
            READY,
            programmed.status,
            programmed.reason,
            programmed.message.clone(),
        ),
    };
    let rejected = (programmed.reason == reason::REJECTED).then(|| programmed.clone());
    if let Some(fault) = refused.or(dangling).or(rejected) {
        findings.push(finding(STALLED, Status::True, fault.reason, fault.message));
    } else if programmed.status == Status::False {
        findings.push(finding(
            RECONCILING,
            Status::True,
            reason::NEW_GENERATION,
            programmed.message.clone(),
        ));
    }
    findings.push(programmed);
    findings.push(ready);
    findings
}

fn unreadable(error: &str) -> Vec<Finding> {
    vec![
        finding(
            ACCEPTED,
            Status::False,
            reason::INVALID,
            format!(
                "the object can't be read: {error}; what it said before stays in force. Write it as the installed CustomResourceDefinition says, or upgrade the operator"
            ),
        ),
        finding(
            RESOLVED_REFS,
            Status::Unknown,
            reason::INVALID,
            "not looked at, since the object is not accepted",
        ),
    ]
}

fn not_accepted() -> Finding {
    finding(
        PROGRAMMED,
        Status::False,
        reason::NOT_ACCEPTED,
        "not sent to sidecars, since the object is not accepted; what it said before stays in force",
    )
}

/// Whether the pool's sidecars obey, its numbers, and its pods without a sidecar.
fn pool_programmed<'a>(
    pool: &ResolvedPool,
    namespace: &'a Namespace,
    progress: impl Fn(&ObjectKey) -> Progress,
) -> (Finding, PoolPods, Vec<&'a Pod>) {
    let staying = |key: &ObjectKey| namespace.pods.get(&key.name).filter(|pod| !pod.leaving);
    let known: Vec<(&Pod, Progress)> = pool
        .pods
        .iter()
        .filter_map(|key| Some((staying(key)?, progress(key))))
        .collect();
    let without: Vec<&Pod> = known
        .iter()
        .filter(|(pod, progress)| !has_sidecar(pod, progress))
        .map(|(pod, _)| *pod)
        .collect();
    let pods: Vec<(&ObjectKey, &Progress)> = known
        .iter()
        .map(|(pod, progress)| (&pod.meta.key, progress))
        .collect();
    let connected_and = |what: fn(&Progress) -> bool| {
        let found = pods
            .iter()
            .filter(|(_, progress)| progress.connected && what(progress));
        count(found.count())
    };
    let version = namespace.push(&pool.key.name).map(|push| &push.version);
    let has_it = |progress: &Progress| progress.acked.as_deref() == version.map(String::as_str);
    let (mut connected, mut in_sync) = (0, 0);
    let (mut behind, mut refusing) = (Vec::new(), Vec::new());
    for (pod, progress) in pods.iter().filter(|(_, progress)| progress.connected) {
        connected += 1;
        let refusal = progress.nacked.as_ref();
        if version.is_some() && has_it(progress) {
            in_sync += 1;
        } else if let Some(nack) =
            refusal.filter(|nack| version.is_some_and(|version| *nack.version == **version))
        {
            refusing.push((*pod, nack.reason.as_ref()));
        } else {
            behind.push(*pod);
        }
    }
    let counts = PoolPods {
        matched: count(pods.len()),
        injected: count(pods.len() - without.len()),
        connected: count(connected),
        in_sync: count(in_sync),
        outdated: connected_and(is_outdated),
        bypassable: connected_and(is_bypassable),
    };
    if pool.policy.is_none() {
        return (not_accepted(), counts, without);
    }
    let said = |status, reason, message: String| finding(PROGRAMMED, status, reason, message);
    let finding = if pods.is_empty() {
        said(
            Status::Unknown,
            reason::NO_ENDPOINTS,
            "no pod has the labels of spec.selector.matchLabels".to_owned(),
        )
    } else if connected == 0 {
        let message = format!(
            "0 of {} connected to the operator by a sidecar",
            match pods.len() {
                1 => "1 pod is".to_owned(),
                pods => format!("{pods} pods are"),
            }
        );
        said(Status::Unknown, reason::NO_ENDPOINTS, message)
    } else if !refusing.is_empty() {
        let (shown, more) = shown(&refusing, |(pod, why)| {
            format!("{}: {}", pod.name, cut(why))
        });
        let message = format!(
            "{} refused the policy and kept the one before: {shown}{more}",
            pods_in_words(refusing.len())
        );
        said(Status::False, reason::REJECTED, message)
    } else if !behind.is_empty() {
        let (shown, more) = shown(&behind, |pod| pod.name.clone());
        let message = format!("waiting for {}: {shown}{more}", pods_in_words(behind.len()));
        let reason = match in_sync {
            0 => reason::PENDING,
            _ => reason::PARTIALLY_PROGRAMMED,
        };
        said(Status::False, reason, message)
    } else {
        said(
            Status::True,
            reason::PROGRAMMED,
            "every connected sidecar obeys the newest policy".to_owned(),
        )
    };
    (finding, counts, without)
}

fn is_outdated(progress: &Progress) -> bool {
    let version = progress.sidecar_version.as_deref();
    version.is_some_and(|version| version != env!("CARGO_PKG_VERSION"))
}

fn is_bypassable(progress: &Progress) -> bool {
    let report = progress.report.as_ref();
    report.is_some_and(|report| report.bypassable == Some(true))
}

fn class_programmed(class: &ResolvedClass, pools: &BTreeMap<ObjectKey, Finding>) -> Finding {
    let accepted = class
        .conditions
        .iter()
        .find(|found| found.type_ == ACCEPTED);
    if accepted.is_some_and(Finding::is_fault) {
        return not_accepted();
    }
    let served: Vec<(&ObjectKey, &Finding)> = class
        .pools
        .iter()
        .filter_map(|key| Some((key, pools.get(key)?)))
        .collect();
    let said = |status, reason, message: String| finding(PROGRAMMED, status, reason, message);
    if served.is_empty() {
        let message = "the class serves no pool yet".to_owned();
        return said(Status::Unknown, reason::NO_ENDPOINTS, message);
    }
    let in_state = |status, wanted: Option<&str>| -> Vec<&(&ObjectKey, &Finding)> {
        let fits = |found: &Finding| {
            found.status == status && wanted.is_none_or(|reason| found.reason == reason)
        };
        served.iter().filter(|(_, found)| fits(found)).collect()
    };
    let each = |pools: &[&(&ObjectKey, &Finding)]| {
        let (shown, more) = shown(pools, |(key, found)| {
            format!("pool {:?}: {}", key.name, found.message)
        });
        format!("{shown}{more}")
    };
    let rejected = in_state(Status::False, Some(reason::REJECTED));
    let behind = in_state(Status::False, None);
    let empty = in_state(Status::Unknown, None);
    if !rejected.is_empty() {
        said(Status::False, reason::REJECTED, each(&rejected))
    } else if !behind.is_empty() {
        let reason = match behind.as_slice() {
            [(_, only)] if served.len() == 1 => only.reason,
            _ => reason::PARTIALLY_PROGRAMMED,
        };
        said(Status::False, reason, each(&behind))
    } else if !empty.is_empty() {
        said(Status::Unknown, reason::NO_ENDPOINTS, each(&empty))
    } else {
        let message = "every connected sidecar of its pools obeys the newest policy";
        said(Status::True, reason::PROGRAMMED, message.to_owned())
    }
}

fn pods_in_words(pods: usize) -> String {
    match pods {
        1 => "1 pod".to_owned(),
        pods => format!("{pods} pods"),
    }
}

/// The first few in words, and how many more there are.
pub(super) fn shown<T>(all: &[T], words: impl Fn(&T) -> String) -> (String, String) {
    let shown: Vec<String> = all.iter().take(NAMED_PODS).map(words).collect();
    let more = match all.len().saturating_sub(NAMED_PODS) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (shown.join(", "), more)
}

fn cut(reason: &str) -> String {
    match reason.char_indices().nth(REASON_CHARS) {
        Some((end, _)) => format!("{}…", &reason[..end]),
        None => reason.to_owned(),
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
