//! A pod's quality-of-service class, as the API server computes it.
//!
//! It decides who is evicted first and whether CPUs are pinned, so a sidecar must not lower it: in
//! a Guaranteed pod the sidecar's limits equal its requests.

use crate::quantity;
use serde_json::Value;
use std::fmt;

/// Quality of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    /// Every container has limits, equal to its requests.
    Guaranteed,
    /// Something is requested or limited.
    Burstable,
    /// Nothing is.
    BestEffort,
}

const COUNTED: [&str; 2] = ["cpu", "memory"];

// === impl QosClass ===

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        })
    }
}

/// The class of a pod.
pub fn qos_class(pod: &Value) -> QosClass {
    let Some(spec) = pod.get("spec") else {
        return QosClass::BestEffort;
    };
    if has_pod_resources(pod) {
        return of(&[spec]);
    }
    let lists = ["containers", "initContainers"];
    let lists = lists.iter().filter_map(|list| spec.get(*list)?.as_array());
    let containers: Vec<&Value> = lists.flatten().collect();
    of(&containers)
}

/// Whether the pod as a whole requests or limits something: then its containers need not.
pub(crate) fn has_pod_resources(pod: &Value) -> bool {
    let resources = pod.pointer("/spec/resources");
    resources.is_some_and(|resources| {
        let kinds = ["requests", "limits"];
        kinds
            .iter()
            .any(|kind| COUNTED.iter().any(|name| amount(resources, kind, name) > 0))
    })
}

fn of(owners: &[&Value]) -> QosClass {
    let mut anything = false;
    let mut guaranteed = !owners.is_empty();
    for owner in owners {
        let nothing = Value::Null;
        let resources = owner.get("resources").unwrap_or(&nothing);
        for name in COUNTED {
            let limit = amount(resources, "limits", name);
            let request = match resources.get("requests").and_then(|all| all.get(name)) {
                Some(_) => amount(resources, "requests", name),
                // A request that is unset is the limit.
                None => limit,
            };
            anything |= limit > 0 || request > 0;
            guaranteed &= limit > 0 && limit == request;
        }
    }
    match (anything, guaranteed) {
        (false, _) => QosClass::BestEffort,
        (true, true) => QosClass::Guaranteed,
        (true, false) => QosClass::Burstable,
    }
}

fn amount(resources: &Value, kind: &str, name: &str) -> i128 {
    let amount = resources.get(kind).and_then(|all| all.get(name));
    amount.and_then(quantity::of).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_class_is_the_api_servers() {
        let full = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}});
        let limits = json!({"limits": {"cpu": 1, "memory": "1Gi"}});
        let cpu = json!({"requests": {"cpu": "1"}});
        let gpu = json!({"limits": {"nvidia.com/gpu": 1}});
        let none = json!({});
        for (containers, init, class) in [
            (vec![&full], vec![], QosClass::Guaranteed),
            (vec![&limits], vec![], QosClass::Guaranteed),
            (vec![&full, &none], vec![], QosClass::Burstable),
            (vec![&full], vec![&none], QosClass::Burstable),
            (vec![&full], vec![&full], QosClass::Guaranteed),
            (vec![&cpu], vec![], QosClass::Burstable),
            (vec![&gpu], vec![], QosClass::BestEffort),
            (vec![&none], vec![], QosClass::BestEffort),
        ] {
            let list = |all: Vec<&Value>| -> Vec<Value> {
                all.iter()
                    .map(|resources| json!({ "resources": resources }))
                    .collect()
            };
            let pod =
                json!({"spec": {"containers": list(containers), "initContainers": list(init)}});
            assert_eq!(qos_class(&pod), class, "{pod}");
        }
        let pod = json!({"spec": {"resources": full, "containers": [{}]}});
        assert_eq!(qos_class(&pod), QosClass::Guaranteed);
    }
}
