//! Which pods of a pool have a sidecar, and how those that have none get one.
//!
//! A pod is changed only when it is created. One that is older than its label, or that was created
//! without the webhook, goes around every rule until its owner replaces it. The operator never does
//! that by itself; it says the one command.

use super::{assess::shown, standing::finding};
use crate::{
    fleet::Progress,
    world::{Owner, Pod},
};
use fairtide_api::conditions::{INJECTED, reason};
use fairtide_resolve::{Finding, Status};
use std::collections::BTreeSet;

/// Whether a sidecar is in the pod: the webhook's mark, or one that was heard, put in by hand.
pub(super) fn has_sidecar(pod: &Pod, progress: &Progress) -> bool {
    pod.injected || progress.connected || progress.sidecar_version.is_some()
}

/// The condition, for a pool with `matched` pods of which these have no sidecar.
pub(super) fn injected(namespace: &str, matched: usize, without: &[&Pod]) -> Finding {
    if matched == 0 {
        return finding(
            INJECTED,
            Status::Unknown,
            reason::NO_ENDPOINTS,
            "no pod has the labels of spec.selector.matchLabels",
        );
    }
    if without.is_empty() {
        let message = "every pod has a sidecar";
        return finding(INJECTED, Status::True, reason::INJECTED, message);
    }
    let mut message = match without.len() {
        1 => format!("1 of {matched} pods has no sidecar, and no rule holds for it"),
        pods => format!("{pods} of {matched} pods have no sidecar, and no rule holds for them"),
    };
    let mut owners = BTreeSet::new();
    let mut alone = Vec::new();
    for pod in without {
        match &pod.owner {
            Some(owner) => {
                owners.insert(owner);
            }
            None => alone.push(pod.meta.key.name.as_str()),
        }
    }
    let owners: Vec<&Owner> = owners.into_iter().collect();
    if !owners.is_empty() {
        let (commands, more) = shown(&owners, |owner| owner.roll(namespace));
        message += &format!(
            "; with label fairtide.dev/inject: enabled on its pod template, roll: {commands}{more}"
        );
    }
    if !alone.is_empty() {
        let (names, more) = shown(&alone, |name| (*name).to_owned());
        message += &format!("; create anew, since nothing owns them: {names}{more}");
    }
    finding(INJECTED, Status::False, reason::NOT_INJECTED, message)
}

// === impl Owner ===

impl Owner {
    /// The command that replaces its pods, where there is one.
    fn roll(&self, namespace: &str) -> String {
        let (kind, name) = (self.kind.to_ascii_lowercase(), &self.name);
        match kind.as_str() {
            "deployment" | "statefulset" | "daemonset" => {
                format!("kubectl rollout restart {kind}/{name} -n {namespace}")
            }
            // It has no such command; its owner creates again what is deleted.
            _ => format!("the pods of {} {name}", self.kind),
        }
    }
}
