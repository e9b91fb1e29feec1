//! One pool: its policy, or why it has none.

use super::{
    Checked, ResolvedPool,
    classes::Link,
    conflicts::{Conflict, conflicts},
    policy,
    shares::{Share, shares},
};
use crate::{Finding, Status, Warning};
use fairtide_api::{
    InferencePool, InferencePoolSpec, TenantSourceType, TrafficClass,
    conditions::{ACCEPTED, RESOLVED_REFS, reason},
    names,
};
use fairtide_policy::{Class, ObjectRef, Policy, Tier};

/// What follows for a pool, and what its classes have to be told because of it.
pub(super) struct Outcome {
    pub(super) pool: ResolvedPool,
    /// The classes that serve it, by index, oldest first.
    pub(super) members: Vec<usize>,
    /// Their shares, in the same order.
    pub(super) shares: Vec<Share>,
    /// Their conflicts, by index into `members`.
    pub(super) conflicts: Vec<Conflict>,
}

pub(super) fn resolve(
    index: usize,
    pool: &Checked<'_, InferencePool>,
    classes: &[Checked<'_, TrafficClass>],
    links: &[Link],
    warnings: &mut Vec<Warning>,
) -> Outcome {
    let spec = &pool.object.spec;
    let members: Vec<usize> = if pool.is_valid() {
        (0..classes.len())
            .filter(|class| links[*class].pools.contains(&index))
            .collect()
    } else {
        Vec::new()
    };
    let shares = shares(members.iter().map(|class| &classes[*class].object.spec));
    let mut served: Vec<Class> = members
        .iter()
        .zip(&shares)
        .map(|(class, share)| policy::class(&classes[*class], *share))
        .collect();
    let conflicts = conflicts(&served);
    let default = default_class(pool, classes, &served);
    if default.as_ref().is_ok_and(Option::is_none) || default.is_err() {
        served.push(policy::implicit_class());
    }
    let default_class = match &default {
        Ok(Some(name)) => name.clone(),
        Ok(None) | Err(_) => names::IMPLICIT_CLASS.to_owned(),
    };
    let document = Policy {
        pool: ObjectRef {
            namespace: pool.key.namespace.clone(),
            name: pool.key.name.clone(),
            generation: pool.generation,
        },
        mode: policy::mode(spec.mode),
        limiter: policy::limiter(spec.limiter.as_ref()),
        tenancy: policy::tenancy(spec.tenancy.as_ref()),
        default_class,
        classes: served,
    };
    if pool.is_valid() {
        warnings.extend(headers_of_nobody(pool));
        warnings.extend(batch_first(pool, &document));
        warnings.extend(unreachable(pool, &document));
    }
    let (policy, conditions) = match document.settings() {
        _ if !pool.is_valid() => (None, pool.left_out()),
        Ok(_) => (Some(document), vec![accepted(), refs(default)]),
        // Bounds of objects are within those of a policy, so this says that they drifted apart.
        Err(error) => {
            let invalid = Finding::new(ACCEPTED, Status::False, reason::INVALID, error.to_string());
            (None, vec![invalid, refs(default)])
        }
    };
    Outcome {
        pool: ResolvedPool {
            key: pool.key.clone(),
            generation: pool.generation,
            selector: spec.selector.clone(),
            target_port: target_port(spec).filter(|_| pool.is_valid()),
            policy,
            conditions,
            pods: Vec::new(),
        },
        members,
        shares,
        conflicts,
    }
}

fn accepted() -> Finding {
    Finding::new(
        ACCEPTED,
        Status::True,
        reason::ACCEPTED,
        "the pool is valid",
    )
}

fn target_port(spec: &InferencePoolSpec) -> Option<u16> {
    u16::try_from(spec.target_ports.first()?.number).ok()
}

/// The default class where it serves the pool, nothing where none is asked for, else what is wrong.
fn default_class(
    pool: &Checked<'_, InferencePool>,
    classes: &[Checked<'_, TrafficClass>],
    served: &[Class],
) -> Result<Option<String>, (&'static str, String)> {
    let Some(wanted) = &pool.object.spec.default_class else {
        return Ok(None);
    };
    let name = &wanted.name;
    if served.iter().any(|class| class.name == *name) {
        return Ok(Some(name.clone()));
    }
    let there = classes
        .iter()
        .find(|class| class.key.namespace == pool.key.namespace && class.key.name == *name);
    let until = format!(
        "Until then, requests that match no class go to the implicit class {:?}",
        names::IMPLICIT_CLASS
    );
    Err(match there {
        None => (
            reason::CLASS_NOT_FOUND,
            format!(
                "spec.defaultClass names TrafficClass {name:?}, which is not in namespace {:?}: create it, or correct the name. {until}",
                pool.key.namespace
            ),
        ),
        Some(class) if !class.is_valid() => (
            reason::CLASS_INVALID,
            format!(
                "spec.defaultClass names TrafficClass {name:?}, which is not accepted: correct it as its Accepted condition says. {until}"
            ),
        ),
        Some(_) => (
            reason::CLASS_NOT_SERVING,
            format!(
                "spec.defaultClass names TrafficClass {name:?}, which doesn't serve this pool: add {:?} to its spec.poolRefs, or name a class that serves the pool. {until}",
                pool.key.name
            ),
        ),
    })
}

fn refs(default: Result<Option<String>, (&'static str, String)>) -> Finding {
    match default {
        Ok(_) => Finding::new(
            RESOLVED_REFS,
            Status::True,
            reason::RESOLVED_REFS,
            "every object that the pool names is there",
        ),
        Err((reason, message)) => Finding::new(RESOLVED_REFS, Status::False, reason, message),
    }
}

fn headers_of_nobody(pool: &Checked<'_, InferencePool>) -> Option<Warning> {
    let tenancy = pool.object.spec.tenancy.as_ref()?;
    let mut sources = tenancy.sources.iter().flatten();
    let reads_header = sources.any(|source| source.type_ == TenantSourceType::Header);
    (reads_header && tenancy.trusted_cidrs.is_none()).then(|| Warning {
        kind: names::INFERENCE_POOL,
        object: pool.key.clone(),
        reason: reason::HEADER_NOT_TRUSTED,
        message: "spec.tenancy.sources reads a header that is believed from nobody: list the addresses of your gateway in spec.tenancy.trustedCIDRs".to_owned(),
    })
}

fn batch_first<'a>(
    pool: &'a Checked<'_, InferencePool>,
    policy: &'a Policy,
) -> impl Iterator<Item = Warning> + 'a {
    let of_tier = |tier| {
        policy
            .classes
            .iter()
            .filter(move |class| class.tier == tier)
    };
    of_tier(Tier::Batch).filter_map(move |batch| {
        let behind = of_tier(Tier::Interactive)
            .filter(|class| class.priority < batch.priority)
            .min_by_key(|class| class.priority)?;
        Some(Warning {
            kind: names::TRAFFIC_CLASS,
            object: crate::ObjectKey::new(&pool.key.namespace, &batch.name),
            reason: reason::BATCH_FIRST,
            message: format!(
                "this Batch class (priority {}) goes before the Interactive class {:?} (priority {}) on pool {:?}: set spec.priority to {} or less, unless that is meant",
                batch.priority, behind.name, behind.priority, pool.key.name, behind.priority
            ),
        })
    })
}

/// Classes that nothing sends requests to: no match, not the default, and nobody may name them.
fn unreachable<'a>(
    pool: &'a Checked<'_, InferencePool>,
    policy: &'a Policy,
) -> impl Iterator<Item = Warning> + 'a {
    policy
        .classes
        .iter()
        .filter(|class| {
            class.matches.is_empty()
                && class.name != policy.default_class
                && policy.tenancy.trusted_cidrs.is_empty()
        })
        .map(|class| Warning {
            kind: names::TRAFFIC_CLASS,
            object: crate::ObjectKey::new(&pool.key.namespace, &class.name),
            reason: reason::UNREACHABLE,
            message: format!(
                "no request of pool {:?} gets into this class: give it a spec.match, make it the pool's spec.defaultClass, or list in the pool's spec.tenancy.trustedCIDRs who may name it in the header {}",
                pool.key.name,
                names::CLASS_HEADER
            ),
        })
}
