//! Which pool a pod belongs to.

use super::{Resolved, ResolvedPool};
use crate::{Finding, PodMeta, Status, finding::listed};
use fairtide_api::conditions::{ACCEPTED, reason};
use std::collections::{BTreeMap, BTreeSet};

// === impl Resolved ===

impl Resolved {
    /// The pool of a pod: the oldest of those that select it, then the first by name.
    pub fn pool_of(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Option<&ResolvedPool> {
        self.pools
            .iter()
            .find(|pool| pool.selects(namespace, labels))
    }

    /// Gives each pod to its pool ([`ResolvedPool::pods`]), and tells the pools that select pods of
    /// an older one, in their `Accepted` condition.
    pub fn assign<'a>(&mut self, pods: impl IntoIterator<Item = &'a PodMeta>) {
        let mut taken: BTreeMap<usize, Vec<(&str, usize)>> = BTreeMap::new();
        for pod in pods {
            let mut selecting = (0..self.pools.len())
                .filter(|index| self.pools[*index].selects(&pod.key.namespace, &pod.labels));
            let Some(owner) = selecting.next() else {
                continue;
            };
            for loser in selecting {
                taken.entry(loser).or_default().push((&pod.key.name, owner));
            }
            self.pools[owner].pods.push(pod.key.clone());
        }
        for (loser, mut pods) in taken {
            pods.sort_unstable();
            let owners: BTreeSet<&str> = pods
                .iter()
                .map(|(_, owner)| self.pools[*owner].key.name.as_str())
                .collect();
            let message = format!(
                "{} of the pods that this pool selects belong to an older pool, {}: {}. Narrow spec.selector.matchLabels of one of the pools",
                pods.len(),
                listed(owners),
                listed(pods.iter().map(|(pod, _)| *pod)),
            );
            self.pools[loser].tell_accepted(reason::PODS_TAKEN, message);
        }
    }
}

// === impl ResolvedPool ===

impl ResolvedPool {
    fn selects(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        self.key.namespace == namespace && self.selector.matches(labels)
    }

    /// Puts a remark into `Accepted` where that has nothing worse to say.
    fn tell_accepted(&mut self, reason: &'static str, message: String) {
        let accepted = self
            .conditions
            .iter_mut()
            .find(|found| found.type_ == ACCEPTED && found.status == Status::True);
        if let Some(accepted) = accepted {
            *accepted = Finding::new(ACCEPTED, Status::True, reason, message);
        }
    }
}
