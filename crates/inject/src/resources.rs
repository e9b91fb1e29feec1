//! What the sidecar requests and may use.
//!
//! - CPU and memory are always requested: an autoscaler fails on a pod of which one container
//!   requests nothing.
//! - No CPU limit by default: a throttled proxy has awful tails. But where every other container
//!   has one, a quota may demand it, so the sidecar gets one too.
//! - A Guaranteed pod stays Guaranteed.

use crate::{
    pod::{Container, Pod},
    qos::{self, QosClass, qos_class},
    quantity,
    refusal::Refusal,
    warning::Warning,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Requests and limits by resource, as Kubernetes writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// What is set aside.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, String>,
    /// What may be used at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
}

/// Not a whole CPU: in a Guaranteed pod the kubelet would pin one to the sidecar.
const CPU_REQUEST: &str = "250m";
const MEMORY_REQUEST: &str = "256Mi";
/// Room for queued bodies at peak.
const MEMORY_LIMIT: &str = "512Mi";
/// Where a limit must be, far enough above the request not to throttle.
const CPU_LIMIT: &str = "1";
/// Five rotated logs of the kubelet's default size, and their rotation.
const EPHEMERAL_STORAGE: &str = "256Mi";

// === impl Resources ===

impl Resources {
    /// What is set in `self`, the rest from `other`.
    pub(crate) fn or(mut self, other: &Self) -> Self {
        for (mine, others) in [
            (&mut self.requests, &other.requests),
            (&mut self.limits, &other.limits),
        ] {
            for (name, value) in others {
                mine.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        self
    }

    fn defaults() -> Self {
        let map = |entries: &[(&str, &str)]| {
            let entries = entries.iter();
            entries
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        Self {
            requests: map(&[("cpu", CPU_REQUEST), ("memory", MEMORY_REQUEST)]),
            limits: map(&[("memory", MEMORY_LIMIT)]),
        }
    }
}

/// The sidecar's resources in this pod.
pub(crate) fn of_sidecar(
    pod: Pod<'_>,
    wished: &Resources,
    warnings: &mut Vec<Warning>,
) -> Result<Value, Refusal> {
    for (name, value) in wished.requests.iter().chain(&wished.limits) {
        if quantity::parse(value).is_none() {
            return Err(Refusal::BadQuantity {
                name: name.clone(),
                value: value.clone(),
            });
        }
    }
    if qos::has_pod_resources(pod.value()) {
        // Own requests would count against the pod's, and might not fit any more.
        warnings.push(Warning::PodResources);
        return Ok(json!({}));
    }
    let mut resources = wished.clone().or(&Resources::defaults());
    fit(&mut resources, wished, "memory");
    let class = qos_class(pod.value());
    match class {
        QosClass::Guaranteed => {
            for name in ["cpu", "memory"] {
                let limit = resources.limits.get(name);
                let amount = limit.or_else(|| resources.requests.get(name)).cloned();
                if let Some(amount) = amount {
                    resources.requests.insert(name.to_owned(), amount.clone());
                    resources.limits.insert(name.to_owned(), amount);
                }
            }
        }
        QosClass::BestEffort => warnings.push(Warning::BestEffort),
        QosClass::Burstable => {}
    }
    let all_have = |kind: &str, name: &str| {
        let mut containers = pod.containers();
        containers.all(|container| has(container, kind, name))
    };
    if all_have("limits", "cpu") && !resources.limits.contains_key("cpu") {
        resources
            .limits
            .insert("cpu".to_owned(), CPU_LIMIT.to_owned());
        fit(&mut resources, wished, "cpu");
    }
    for (kind, map) in [
        ("requests", &mut resources.requests),
        ("limits", &mut resources.limits),
    ] {
        let name = "ephemeral-storage";
        if all_have(kind, name) && !map.contains_key(name) {
            map.insert(name.to_owned(), EPHEMERAL_STORAGE.to_owned());
        }
    }
    for (name, request) in &resources.requests {
        let limit = resources.limits.get(name);
        if limit.is_some_and(|limit| quantity::parse(request) > quantity::parse(limit)) {
            return Err(Refusal::RequestAboveLimit { name: name.clone() });
        }
    }
    Ok(json!({ "requests": resources.requests, "limits": resources.limits }))
}

/// Where only one of request and limit was wished, the default of the other gives way.
fn fit(resources: &mut Resources, wished: &Resources, name: &str) {
    let (Some(request), Some(limit)) = (resources.requests.get(name), resources.limits.get(name))
    else {
        return;
    };
    if quantity::parse(request) <= quantity::parse(limit) {
        return;
    }
    if !wished.limits.contains_key(name) {
        let request = request.clone();
        resources.limits.insert(name.to_owned(), request);
    } else if !wished.requests.contains_key(name) {
        let limit = limit.clone();
        resources.requests.insert(name.to_owned(), limit);
    }
}

fn has(container: Container<'_>, kind: &str, name: &str) -> bool {
    let amount = container.get("resources").and_then(|all| all.get(kind));
    amount.is_some_and(|amounts| amounts.get(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sidecar(containers: &Value, wished: &Value) -> Result<Value, Refusal> {
        let pod = json!({"metadata": {}, "spec": {"containers": containers}});
        let wished = serde_json::from_value(wished.clone()).expect("resources");
        of_sidecar(Pod::read(&pod).expect("a pod"), &wished, &mut Vec::new())
    }

    fn container(resources: &Value) -> Value {
        json!([{"name": "c", "resources": resources}])
    }

    #[test]
    fn a_burstable_pod_gets_no_cpu_limit_unless_all_have_one() {
        let plain = container(&json!({"requests": {"cpu": 1}}));
        assert_eq!(
            sidecar(&plain, &json!({})).expect("some"),
            json!({"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}})
        );
        let limited =
            container(&json!({"requests": {"cpu": 1}, "limits": {"cpu": 2, "memory": "1Gi"}}));
        let limits = sidecar(&limited, &json!({})).expect("some")["limits"].clone();
        assert_eq!(limits, json!({"cpu": "1", "memory": "512Mi"}));
    }

    #[test]
    fn in_a_guaranteed_pod_requests_equal_limits() {
        let pod = container(&json!({"limits": {"cpu": 8, "memory": "64Gi"}}));
        let all = json!({"cpu": "250m", "memory": "512Mi"});
        assert_eq!(
            sidecar(&pod, &json!({})).expect("some"),
            json!({"requests": all, "limits": all})
        );
        let wished = json!({"limits": {"cpu": "2"}});
        let all = json!({"cpu": "2", "memory": "512Mi"});
        assert_eq!(
            sidecar(&pod, &wished).expect("some"),
            json!({"requests": all, "limits": all})
        );
    }

    #[test]
    fn a_default_gives_way_to_a_wish() {
        let pod = container(&json!({"requests": {"cpu": 1}}));
        let more = sidecar(&pod, &json!({"requests": {"memory": "1Gi"}})).expect("some");
        assert_eq!(more["limits"]["memory"], "1Gi");
        let less = sidecar(&pod, &json!({"limits": {"memory": "128Mi"}})).expect("some");
        assert_eq!(less["requests"]["memory"], "128Mi");
        let odd = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
        assert!(matches!(
            sidecar(&pod, &odd),
            Err(Refusal::RequestAboveLimit { .. })
        ));
        assert!(matches!(
            sidecar(&pod, &json!({"limits": {"cpu": "lots"}})),
            Err(Refusal::BadQuantity { .. })
        ));
    }

    #[test]
    fn a_quota_on_storage_is_met() {
        let storage = json!({"ephemeral-storage": "1Gi"});
        let pod = container(&json!({"requests": storage, "limits": storage}));
        let resources = sidecar(&pod, &json!({})).expect("some");
        assert_eq!(resources["requests"]["ephemeral-storage"], "256Mi");
        assert_eq!(resources["limits"]["ephemeral-storage"], "256Mi");
    }
}
