//! The classes: which pools they serve, and what they are told.

use super::{Checked, ResolvedClass, conflicts::Conflict, pools::Outcome};
use crate::{
    Finding, Status,
    finding::{few, listed},
};
use fairtide_api::{
    InferencePool, TrafficClass,
    conditions::{ACCEPTED, CONFLICTED, RESOLVED_REFS, reason},
};

/// What a class names.
#[derive(Default)]
pub(super) struct Link {
    /// The pools that are there, valid or not, by index.
    pub(super) pools: Vec<usize>,
    /// Names in `poolRefs` that no pool has.
    missing: Vec<String>,
}

/// What each class names. An invalid class names nothing.
pub(super) fn links(
    classes: &[Checked<'_, TrafficClass>],
    pools: &[Checked<'_, InferencePool>],
) -> Vec<Link> {
    classes.iter().map(|class| link(class, pools)).collect()
}

fn link(class: &Checked<'_, TrafficClass>, pools: &[Checked<'_, InferencePool>]) -> Link {
    let mut link = Link::default();
    if !class.is_valid() {
        return link;
    }
    let spec = &class.object.spec;
    let here = |index: &usize| pools[*index].key.namespace == class.key.namespace;
    for reference in spec.pool_refs.iter().flatten() {
        let named = |index: &usize| pools[*index].key.name == reference.name;
        match (0..pools.len()).filter(here).find(named) {
            Some(pool) => link.pools.push(pool),
            None => link.missing.push(reference.name.clone()),
        }
    }
    if let Some(selector) = &spec.pool_selector {
        let selected = |index: &usize| {
            let labels = pools[*index].object.metadata.labels.as_ref();
            labels.is_some_and(|labels| selector.matches(labels))
        };
        link.pools
            .extend((0..pools.len()).filter(here).filter(selected));
    }
    link
}

/// What follows for each class.
pub(super) fn resolve(
    classes: &[Checked<'_, TrafficClass>],
    pools: &[Checked<'_, InferencePool>],
    links: &[Link],
    outcomes: &[Outcome],
) -> Vec<ResolvedClass> {
    classes
        .iter()
        .enumerate()
        .map(|(index, class)| {
            let link = &links[index];
            let conditions = if class.is_valid() {
                [
                    Some(accepted(index, classes, outcomes)),
                    Some(refs(class, link, pools)),
                    conflicted(index, classes, outcomes),
                ]
                .into_iter()
                .flatten()
                .collect()
            } else {
                class.left_out()
            };
            ResolvedClass {
                key: class.key.clone(),
                generation: class.generation,
                pools: link
                    .pools
                    .iter()
                    .filter(|pool| pools[**pool].is_valid())
                    .map(|pool| pools[*pool].key.clone())
                    .collect(),
                conditions,
            }
        })
        .collect()
}

fn accepted(index: usize, classes: &[Checked<'_, TrafficClass>], outcomes: &[Outcome]) -> Finding {
    let denied: Vec<String> = outcomes
        .iter()
        .filter_map(|outcome| denied(index, classes, outcome))
        .collect();
    if denied.is_empty() {
        let message = "the class is valid";
        return Finding::new(ACCEPTED, Status::True, reason::ACCEPTED, message);
    }
    Finding::new(
        ACCEPTED,
        Status::True,
        reason::MIN_SHARE_OVER_PROMISED,
        denied.join("; "),
    )
}

/// What is to be said of a share that one pool doesn't grant.
fn denied(
    index: usize,
    classes: &[Checked<'_, TrafficClass>],
    outcome: &Outcome,
) -> Option<String> {
    let place = outcome.members.iter().position(|class| *class == index)?;
    let promised = outcome.shares[place].denied_beside?;
    let asked = classes[index].object.spec.min_share.unwrap_or(0);
    let older: Vec<String> = outcome.members[..place]
        .iter()
        .zip(&outcome.shares)
        .filter_map(|(class, share)| {
            let asked = classes[*class]
                .object
                .spec
                .min_share
                .filter(|asked| *asked > 0)?;
            (share.denied_beside.is_none())
                .then(|| format!("{:?} ({asked} %)", classes[*class].key.name))
        })
        .collect();
    let pool = &outcome.pool.key.name;
    let left = 90 - promised;
    Some(format!(
        "minShare {asked} counts as 0 on pool {pool:?}: older classes are promised {promised} % there, {}, and all together may be promised 90 %. Lower minShare here to {left} or less, or lower theirs",
        few(older),
    ))
}

fn refs(
    class: &Checked<'_, TrafficClass>,
    link: &Link,
    pools: &[Checked<'_, InferencePool>],
) -> Finding {
    let unresolved = |reason, message| Finding::new(RESOLVED_REFS, Status::False, reason, message);
    let namespace = &class.key.namespace;
    let mut there: Vec<&str> = pools
        .iter()
        .filter(|pool| pool.key.namespace == *namespace)
        .map(|pool| pool.key.name.as_str())
        .collect();
    there.sort_unstable();
    let there = match there.as_slice() {
        [] => "there is none yet".to_owned(),
        names => format!("there are {}", listed(names.iter().copied())),
    };
    if !link.missing.is_empty() {
        let missing = listed(link.missing.iter().map(String::as_str));
        return unresolved(
            reason::POOL_NOT_FOUND,
            format!(
                "spec.poolRefs names InferencePool {missing}, not found in namespace {namespace:?} ({there}): create it, or correct the name"
            ),
        );
    }
    if link.pools.is_empty() {
        return unresolved(
            reason::POOL_NOT_FOUND,
            format!(
                "spec.poolSelector selects no InferencePool of namespace {namespace:?} ({there}): label a pool so, or correct spec.poolSelector.matchLabels"
            ),
        );
    }
    let broken = link.pools.iter().filter(|pool| !pools[**pool].is_valid());
    let broken: Vec<&str> = broken.map(|pool| pools[*pool].key.name.as_str()).collect();
    if !broken.is_empty() {
        return unresolved(
            reason::POOL_INVALID,
            format!(
                "InferencePool {} is not accepted: correct it as its Accepted condition says",
                listed(broken)
            ),
        );
    }
    Finding::new(
        RESOLVED_REFS,
        Status::True,
        reason::RESOLVED_REFS,
        "every pool that the class names is there",
    )
}

fn conflicted(
    index: usize,
    classes: &[Checked<'_, TrafficClass>],
    outcomes: &[Outcome],
) -> Option<Finding> {
    let mut told: Vec<(usize, String)> = Vec::new();
    for outcome in outcomes {
        for conflict in &outcome.conflicts {
            let Conflict {
                winner,
                loser,
                entry,
                precedence,
            } = conflict;
            let winner = outcome.members[*winner];
            if outcome.members[*loser] != index || told.iter().any(|(other, _)| *other == winner) {
                continue;
            }
            let name = &classes[winner].key.name;
            told.push((
                winner,
                format!(
                    "spec.match[{entry}] takes some of the same requests as the older class {name:?} on pool {:?}, both with precedence {precedence}: {name:?} gets them. Set spec.match[{entry}].precedence above {precedence} to have them here, or below to leave them there",
                    outcome.pool.key.name
                ),
            ));
        }
    }
    if told.is_empty() {
        return None;
    }
    let more = told.len().saturating_sub(3);
    let mut messages: Vec<String> = told
        .into_iter()
        .take(3)
        .map(|(_, message)| message)
        .collect();
    if more > 0 {
        messages.push(format!("and so with {more} more classes"));
    }
    Some(Finding::new(
        CONFLICTED,
        Status::True,
        reason::MATCH_OVERLAP,
        messages.join("; "),
    ))
}
