//! The index of everything that is watched, and what follows from it.
//!
//! A plain struct with `apply` and `delete`, no client and no clock: sources feed it, [`World::settle`]
//! works out what changed. References never leave a namespace, so a change is worked out anew for
//! its namespace alone; where only pods changed, they are only dealt out again. Nothing is worked
//! out before every kind has been listed once: half a picture would push half a policy.

mod held;

pub use held::{Held, Owner, Pod, Reported};

use crate::fleet::Push;
use fairtide_api::{InferencePool, TrafficClass};
use fairtide_resolve::{ObjectKey, Resolved, resolve};
use kube::core::error_boundary::InvalidObject;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::time::Instant;

/// What a source saw of an object: the object, or that it can't be read.
pub type Seen<T> = Result<T, Box<InvalidObject>>;

/// A change of the objects of one kind.
#[derive(Clone, Debug)]
pub enum Delta<T> {
    /// The object is there, or has changed.
    Apply(T),
    /// The object is gone.
    Delete(ObjectKey),
    /// These objects are there, and no others.
    Replace(Vec<T>),
}

/// A change of anything that is watched.
#[derive(Clone, Debug)]
pub enum Change {
    /// Of pools.
    Pools(Delta<Seen<InferencePool>>),
    /// Of classes.
    Classes(Delta<Seen<TrafficClass>>),
    /// Of pods.
    Pods(Delta<Pod>),
}

/// All that is watched.
#[derive(Debug, Default)]
pub struct World {
    namespaces: BTreeMap<String, Namespace>,
    listed: Listed,
    /// Pods that are gone since the world was last settled.
    gone: BTreeSet<ObjectKey>,
}

/// What one namespace holds, and what follows from it.
#[derive(Debug, Default)]
pub struct Namespace {
    /// Its pools by name.
    pub pools: BTreeMap<String, Held<InferencePool>>,
    /// Its classes by name.
    pub classes: BTreeMap<String, Held<TrafficClass>>,
    /// Its pods by name.
    pub pods: BTreeMap<String, Pod>,
    /// What follows from pools and classes, without the pods.
    rules: Option<Resolved>,
    /// What follows from all three.
    resolved: Option<Arc<Resolved>>,
    /// What the pods of each pool should have.
    pushes: BTreeMap<String, Arc<Push>>,
}

#[derive(Debug, Default)]
struct Listed {
    pools: bool,
    classes: bool,
    pods: bool,
}

/// What changed since the world was last settled.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The namespaces that were worked out anew.
    pub namespaces: Vec<String>,
    /// The pods that are gone.
    pub gone: BTreeSet<ObjectKey>,
}

// === impl World ===

impl World {
    /// Takes in a change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Pools(Delta::Apply(seen)) => self.pool(seen),
            Change::Pools(Delta::Delete(key)) => self.delete_pool(&key),
            Change::Pools(Delta::Replace(all)) => {
                let keys: BTreeSet<_> = all.iter().map(held::key).collect();
                all.into_iter().for_each(|seen| self.pool(seen));
                for key in self.keys(|namespace| &namespace.pools) {
                    if !keys.contains(&key) {
                        self.delete_pool(&key);
                    }
                }
                self.listed.pools = true;
            }
            Change::Classes(Delta::Apply(seen)) => self.class(seen),
            Change::Classes(Delta::Delete(key)) => self.delete_class(&key),
            Change::Classes(Delta::Replace(all)) => {
                let keys: BTreeSet<_> = all.iter().map(held::key).collect();
                all.into_iter().for_each(|seen| self.class(seen));
                for key in self.keys(|namespace| &namespace.classes) {
                    if !keys.contains(&key) {
                        self.delete_class(&key);
                    }
                }
                self.listed.classes = true;
            }
            Change::Pods(Delta::Apply(pod)) => self.pod(pod),
            Change::Pods(Delta::Delete(key)) => self.delete_pod(&key),
            Change::Pods(Delta::Replace(all)) => {
                let keys: BTreeSet<_> = all.iter().map(|pod| pod.meta.key.clone()).collect();
                all.into_iter().for_each(|pod| self.pod(pod));
                for key in self.keys(|namespace| &namespace.pods) {
                    if !keys.contains(&key) {
                        self.delete_pod(&key);
                    }
                }
                self.listed.pods = true;
            }
        }
    }

    /// Works out what changed by `now`. Nothing, before every kind has been listed.
    pub fn settle(&mut self, now: Instant) -> Settled {
        if !(self.listed.pools && self.listed.classes && self.listed.pods) {
            return Settled::default();
        }
        let mut settled = Settled {
            gone: std::mem::take(&mut self.gone),
            namespaces: Vec::new(),
        };
        self.namespaces.retain(|_, namespace| !namespace.is_empty());
        for (name, namespace) in &mut self.namespaces {
            if namespace.settle(now) {
                settled.namespaces.push(name.clone());
            }
        }
        settled
    }

    /// A namespace, if anything is in it.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }

    /// All namespaces that hold something.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, &Namespace)> {
        self.namespaces
            .iter()
            .map(|(name, namespace)| (name.as_str(), namespace))
    }

    fn pool(&mut self, seen: Seen<InferencePool>) {
        let key = held::key(&seen);
        let namespace = self.namespaces.entry(key.namespace).or_default();
        if held::apply(&mut namespace.pools, key.name, seen) {
            namespace.rules = None;
        }
    }

    fn delete_pool(&mut self, key: &ObjectKey) {
        if let Some(namespace) = self.namespaces.get_mut(&key.namespace)
            && namespace.pools.remove(&key.name).is_some()
        {
            namespace.rules = None;
        }
    }

    fn class(&mut self, seen: Seen<TrafficClass>) {
        let key = held::key(&seen);
        let namespace = self.namespaces.entry(key.namespace).or_default();
        if held::apply(&mut namespace.classes, key.name, seen) {
            namespace.rules = None;
        }
    }

    fn delete_class(&mut self, key: &ObjectKey) {
        if let Some(namespace) = self.namespaces.get_mut(&key.namespace)
            && namespace.classes.remove(&key.name).is_some()
        {
            namespace.rules = None;
        }
    }

    fn pod(&mut self, pod: Pod) {
        let ObjectKey { namespace, name } = pod.meta.key.clone();
        let namespace = self.namespaces.entry(namespace).or_default();
        self.gone.remove(&pod.meta.key);
        if namespace.pods.get(&name) != Some(&pod) {
            namespace.pods.insert(name, pod);
            namespace.resolved = None;
        }
    }

    fn delete_pod(&mut self, key: &ObjectKey) {
        if let Some(namespace) = self.namespaces.get_mut(&key.namespace)
            && namespace.pods.remove(&key.name).is_some()
        {
            namespace.resolved = None;
            self.gone.insert(key.clone());
        }
    }

    fn keys<T>(&self, kind: impl Fn(&Namespace) -> &BTreeMap<String, T>) -> Vec<ObjectKey> {
        self.namespaces
            .iter()
            .flat_map(|(namespace, held)| {
                let names = kind(held).keys();
                names.map(move |name| ObjectKey::new(namespace, name))
            })
            .collect()
    }
}

// === impl Namespace ===

impl Namespace {
    /// What follows from the pools, classes and pods; `None` before that was worked out.
    pub fn resolved(&self) -> Option<&Arc<Resolved>> {
        self.resolved.as_ref()
    }

    /// What the pods of a pool should have; `None` where the pool has no valid policy.
    pub fn push(&self, pool: &str) -> Option<&Arc<Push>> {
        self.pushes.get(pool)
    }

    /// Every pod, with what it should have; `None` for one of no pool, or of one without a policy.
    pub fn assigned(&self) -> impl Iterator<Item = (&Pod, Option<&Arc<Push>>)> {
        let mut pools = BTreeMap::new();
        for pool in self.resolved.iter().flat_map(|resolved| &resolved.pools) {
            for pod in &pool.pods {
                pools.insert(pod.name.as_str(), pool.key.name.as_str());
            }
        }
        self.pods.iter().map(move |(name, pod)| {
            let pool = pools.get(name.as_str());
            (pod, pool.and_then(|pool| self.push(pool)))
        })
    }

    fn settle(&mut self, now: Instant) -> bool {
        if self.rules.is_some() && self.resolved.is_some() {
            return false;
        }
        let rules = match self.rules.take() {
            Some(rules) => rules,
            None => {
                let rules = resolve(
                    self.pools.values().filter_map(|held| held.good.as_ref()),
                    self.classes.values().filter_map(|held| held.good.as_ref()),
                );
                self.pushes = pushes(&rules, &self.pushes, now);
                rules
            }
        };
        let mut resolved = self.rules.insert(rules).clone();
        resolved.assign(self.pods.values().map(|pod| &pod.meta));
        self.resolved = Some(Arc::new(resolved));
        true
    }

    fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.classes.is_empty() && self.pods.is_empty()
    }
}

/// One push per pool that has a policy; those that didn't change stay as they were.
fn pushes(
    rules: &Resolved,
    old: &BTreeMap<String, Arc<Push>>,
    now: Instant,
) -> BTreeMap<String, Arc<Push>> {
    let pushes = rules.pools.iter().filter_map(|pool| {
        let policy = pool.policy.as_ref()?;
        let old = old.get(&pool.key.name);
        let same = old.filter(|push| push.version == policy.version());
        let push = match same {
            Some(push) => push.clone(),
            None => Arc::new(Push::new(policy.clone(), now)),
        };
        Some((pool.key.name.clone(), push))
    });
    pushes.collect()
}

#[cfg(test)]
mod tests;
