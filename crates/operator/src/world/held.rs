//! One object as the world holds it.

use super::Seen;
use crate::status::{Counts, Standing};
use fairtide_api::{InferencePool, Kind, TrafficClass};
use fairtide_inject::names::INJECTED_LABEL;
use fairtide_resolve::{ObjectKey, PodMeta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{collections::BTreeMap, sync::Arc};

/// A pool or class. One that can't be read any more stays in force as it was.
#[derive(Clone, Debug)]
pub struct Held<T> {
    /// The newest metadata.
    pub meta: ObjectMeta,
    /// The newest object that could be read.
    pub good: Option<T>,
    /// Why the newest can't be read, if it can't.
    pub broken: Option<String>,
}

/// A pod, but for everything that its policy doesn't depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name and labels.
    pub meta: PodMeta,
    /// Its uid; `None` for one from a file.
    pub uid: Option<Arc<str>>,
    /// The webhook put a sidecar in.
    pub injected: bool,
    /// What replaces it when it is rolled; `None`: nothing does.
    pub owner: Option<Owner>,
    /// It is being deleted: it keeps its policy, but no status counts it.
    pub leaving: bool,
}

/// What owns pods, as a user knows it: the Deployment and not its ReplicaSet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// `Deployment`, say.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// A kind that is held, and whose status is written.
pub trait Reported: Kind {
    /// The status that was read with it.
    fn standing(&self) -> Option<Standing>;

    /// Whether both ask for the same.
    fn same_spec(&self, other: &Self) -> bool;
}

/// The key of what was seen.
pub(super) fn key<T: Kind>(seen: &Seen<T>) -> ObjectKey {
    match seen {
        Ok(object) => ObjectKey::of(object.meta()),
        Err(broken) => ObjectKey::of(&broken.metadata),
    }
}

/// Puts in what was seen. Whether it differs in anything that a policy or condition depends on.
pub(super) fn apply<T: Reported + Clone>(
    objects: &mut BTreeMap<String, Held<T>>,
    name: String,
    seen: Seen<T>,
) -> bool {
    let old = objects.get(&name);
    // Another object of the same name inherits nothing.
    let old = old.filter(|old| old.meta.uid == meta(&seen).uid);
    match seen {
        Ok(object) => {
            let same = old.is_some_and(|old| {
                old.broken.is_none()
                    && same_meta(&old.meta, object.meta())
                    && old.good.as_ref().is_some_and(|old| old.same_spec(&object))
            });
            let held = Held {
                meta: object.meta().clone(),
                good: Some(object),
                broken: None,
            };
            objects.insert(name, held);
            !same
        }
        Err(invalid) => {
            let same = old.is_some_and(|old| old.broken.as_ref() == Some(&invalid.error));
            let held = Held {
                good: old.and_then(|old| old.good.clone()),
                meta: invalid.metadata,
                broken: Some(invalid.error),
            };
            objects.insert(name, held);
            !same
        }
    }
}

fn meta<T: Kind>(seen: &Seen<T>) -> &ObjectMeta {
    match seen {
        Ok(object) => object.meta(),
        Err(broken) => &broken.metadata,
    }
}

fn same_meta(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    (a.generation, &a.labels, &a.creation_timestamp)
        == (b.generation, &b.labels, &b.creation_timestamp)
}

// === impl Reported ===

impl Reported for InferencePool {
    fn standing(&self) -> Option<Standing> {
        let status = self.status.as_ref()?;
        let counts = Counts::Pods(status.pods);
        Some(Standing::read(
            status.observed_generation,
            &status.conditions,
            counts,
        ))
    }

    fn same_spec(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl Reported for TrafficClass {
    fn standing(&self) -> Option<Standing> {
        let status = self.status.as_ref()?;
        let counts = Counts::Pools(status.pools);
        Some(Standing::read(
            status.observed_generation,
            &status.conditions,
            counts,
        ))
    }

    fn same_spec(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

// === impl Pod ===

impl Pod {
    /// What the metadata of a pod says.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            meta: PodMeta::of(metadata),
            uid: metadata.uid.as_deref().map(Arc::from),
            injected: label(metadata, INJECTED_LABEL) == Some("true"),
            owner: Owner::of(metadata),
            leaving: metadata.deletion_timestamp.is_some(),
        }
    }
}

// === impl Owner ===

impl Owner {
    fn of(metadata: &ObjectMeta) -> Option<Self> {
        let mut owners = metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        // A Deployment names its ReplicaSets after itself and the hash of the pods' template.
        let deployment = label(metadata, "pod-template-hash")
            .filter(|_| owner.kind == "ReplicaSet")
            .and_then(|hash| owner.name.strip_suffix(hash)?.strip_suffix('-'));
        Some(match deployment {
            Some(name) => Self {
                kind: "Deployment".to_owned(),
                name: name.to_owned(),
            },
            None => Self {
                kind: owner.kind.clone(),
                name: owner.name.clone(),
            },
        })
    }
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn owner(kind: &str, name: &str) -> Option<Owner> {
        let metadata = json!({
            "name": "vllm-6d4f-x", "labels": {"pod-template-hash": "6d4f"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true,
            }],
        });
        Pod::of(&serde_json::from_value(metadata).unwrap()).owner
    }

    #[test]
    fn a_replica_set_is_known_by_its_deployment() {
        let said = |kind: &str, name: &str| {
            let owner = owner(kind, name).unwrap();
            (owner.kind, owner.name)
        };
        let pair = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
        assert_eq!(said("ReplicaSet", "vllm-6d4f"), pair("Deployment", "vllm"));
        assert_eq!(said("ReplicaSet", "bare"), pair("ReplicaSet", "bare"));
        assert_eq!(said("StatefulSet", "vllm"), pair("StatefulSet", "vllm"));
        assert_eq!(Pod::of(&ObjectMeta::default()).owner, None);
    }
}
