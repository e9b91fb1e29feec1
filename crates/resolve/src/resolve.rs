//! Pools and classes → one policy per pool, and what is to be said about each object.
//!
//! One broken object never stops the others: it is left out, it is told why, and whoever names it
//! is told too. Where two objects ask for what only one can have, the older has it and the younger
//! is told; so a new object never takes away what an old one was promised.

mod classes;
mod conflicts;
mod pods;
mod policy;
mod pools;
mod shares;

use crate::{Finding, ObjectKey, Status, Warning, key};
use fairtide_api::{
    InferencePool, Kind, LabelSelector, TrafficClass, Violation,
    conditions::{ACCEPTED, RESOLVED_REFS, reason},
    validate,
};
use fairtide_policy::Policy;
use std::collections::BTreeMap;

/// Everything that follows from a set of objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The pools, oldest first.
    pub pools: Vec<ResolvedPool>,
    /// The classes, oldest first.
    pub classes: Vec<ResolvedClass>,
    /// What is allowed and most likely not meant, in order of the objects.
    pub warnings: Vec<Warning>,
}

/// What follows for one pool.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedPool {
    /// The pool.
    pub key: ObjectKey,
    /// The generation that this follows from; 0 for one from a file.
    pub generation: i64,
    /// Which pods it selects. An invalid pool goes on to select its pods, so that they don't fall
    /// to another pool because of a slip of the pen; they keep the policy that they have.
    pub selector: LabelSelector,
    /// The port on which the engine answers; `None` where the pool is invalid.
    pub target_port: Option<u16>,
    /// What its pods obey. `None` where the pool is invalid; its `Accepted` condition says why.
    pub policy: Option<Policy>,
    /// Its conditions, but for those that depend on sidecars: `Accepted` and `ResolvedRefs`.
    pub conditions: Vec<Finding>,
    /// Its pods, as far as [`Resolved::assign`] was told of them.
    pub pods: Vec<ObjectKey>,
}

/// What follows for one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedClass {
    /// The class.
    pub key: ObjectKey,
    /// The generation that this follows from; 0 for one from a file.
    pub generation: i64,
    /// The pools that it serves and that are valid.
    pub pools: Vec<ObjectKey>,
    /// Its conditions, but for those that depend on sidecars: `Accepted`, `ResolvedRefs`, and
    /// `Conflicted` while that is true.
    pub conditions: Vec<Finding>,
}

/// An object of a kind, with what its bounds and rules say.
struct Checked<'a, T> {
    key: ObjectKey,
    generation: i64,
    object: &'a T,
    faults: Vec<Violation>,
}

/// Resolves a set of objects. Their order doesn't matter; where a kind has two objects of one name,
/// which no cluster has, the older counts.
pub fn resolve<'a>(
    pools: impl IntoIterator<Item = &'a InferencePool>,
    classes: impl IntoIterator<Item = &'a TrafficClass>,
) -> Resolved {
    let mut pools = checked(pools);
    let classes = checked(classes);
    for pool in &mut pools {
        pool.faults
            .extend(policy::unreadable_cidrs(&pool.object.spec));
    }
    let mut warnings = Vec::new();
    let links = classes::links(&classes, &pools);
    let resolved_pools = pools
        .iter()
        .enumerate()
        .map(|(index, pool)| pools::resolve(index, pool, &classes, &links, &mut warnings))
        .collect::<Vec<_>>();
    let mut resolved = Resolved {
        classes: classes::resolve(&classes, &pools, &links, &resolved_pools),
        pools: resolved_pools
            .into_iter()
            .map(|outcome| outcome.pool)
            .collect(),
        warnings,
    };
    resolved.warnings.sort();
    resolved.warnings.dedup();
    resolved
}

fn checked<'a, T: Kind + 'a>(objects: impl IntoIterator<Item = &'a T>) -> Vec<Checked<'a, T>> {
    let by_age: BTreeMap<_, _> = objects
        .into_iter()
        .map(|object| (key::age(object.meta()), object))
        .collect();
    let mut checked: Vec<Checked<'a, T>> = Vec::with_capacity(by_age.len());
    for object in by_age.into_values() {
        let key = ObjectKey::of(object.meta());
        if checked.iter().all(|other| other.key != key) {
            checked.push(Checked {
                key,
                generation: object.meta().generation.unwrap_or(0),
                object,
                faults: validate(object),
            });
        }
    }
    checked
}

// === impl Checked ===

impl<T> Checked<'_, T> {
    fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }

    /// The conditions of an object that is left out.
    fn left_out(&self) -> Vec<Finding> {
        let faults: Vec<String> = self.faults.iter().map(Violation::to_string).collect();
        vec![
            Finding::new(ACCEPTED, Status::False, reason::INVALID, faults.join("; ")),
            Finding::new(
                RESOLVED_REFS,
                Status::Unknown,
                reason::INVALID,
                "not looked at, since the object is not accepted",
            ),
        ]
    }
}

// === impl ResolvedPool ===

impl ResolvedPool {
    /// A condition by its type.
    pub fn condition(&self, type_: &str) -> Option<&Finding> {
        self.conditions.iter().find(|found| found.type_ == type_)
    }
}

// === impl ResolvedClass ===

impl ResolvedClass {
    /// A condition by its type.
    pub fn condition(&self, type_: &str) -> Option<&Finding> {
        self.conditions.iter().find(|found| found.type_ == type_)
    }
}
