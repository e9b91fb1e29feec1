//! Pod templates, and the pods that controllers make of them.
//!
//! The webhook sees a pod with what its controller added: the owner by which a Job's pod is known,
//! the labels of a LeaderWorkerSet's group. A template is shown with the same, so that it is
//! decided about alike; what was added is taken out again.

use serde_json::{Value, json};

const LWS_NAME: &str = "leaderworkerset.sigs.k8s.io/name";
const LWS_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// Where a template is, and what becomes of it.
pub struct Template {
    /// JSON pointer.
    pub at: &'static str,
    /// For messages, where a kind has several.
    pub role: &'static str,
    made_by: MadeBy,
}

enum MadeBy {
    /// Nothing that matters is added.
    Any,
    Job,
    /// A worker has no index before another webhook gives it one.
    Lws {
        index: Option<&'static str>,
    },
}

/// The templates of a kind.
pub fn of(kind: &str) -> Vec<Template> {
    let one = |at, made_by| {
        vec![Template {
            at,
            role: "",
            made_by,
        }]
    };
    match kind {
        "Pod" => one("", MadeBy::Any),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" => {
            one("/spec/template", MadeBy::Any)
        }
        "Job" => one("/spec/template", MadeBy::Job),
        "CronJob" => one("/spec/jobTemplate/spec/template", MadeBy::Job),
        // Without a leader's template leaders are made of the workers', which can't have the
        // sidecar for one of them alone: those are left to the webhook.
        "LeaderWorkerSet" => vec![
            Template {
                at: "/spec/leaderWorkerTemplate/leaderTemplate",
                role: " (leader)",
                made_by: MadeBy::Lws { index: Some("0") },
            },
            Template {
                at: "/spec/leaderWorkerTemplate/workerTemplate",
                role: " (worker)",
                made_by: MadeBy::Lws { index: None },
            },
        ],
        _ => Vec::new(),
    }
}

// === impl Template ===

impl Template {
    /// The pod that the API server will be asked to create.
    pub fn pod(&self, template: &Value, owner: &str) -> Value {
        let mut pod = template.clone();
        if !pod.is_object() {
            return pod;
        }
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        match self.made_by {
            MadeBy::Any => {}
            MadeBy::Job => pod["metadata"]["ownerReferences"] = json!([{ "kind": "Job" }]),
            MadeBy::Lws { index } => {
                let labels = &mut pod["metadata"]["labels"];
                labels[LWS_NAME] = json!(owner);
                if let Some(index) = index {
                    labels[LWS_INDEX] = json!(index);
                }
            }
        }
        pod
    }

    /// Writes what was injected into the template, without what [`Template::pod`] added.
    pub fn put_back(&self, mut pod: Value, template: &mut Value) {
        let metadata = pod["metadata"].as_object_mut();
        if let Some(metadata) = metadata {
            match self.made_by {
                MadeBy::Any => {}
                MadeBy::Job => {
                    metadata.remove("ownerReferences");
                }
                MadeBy::Lws { .. } => {
                    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut)
                    {
                        labels.remove(LWS_NAME);
                        labels.remove(LWS_INDEX);
                    }
                }
            }
        }
        for part in ["metadata", "spec"] {
            template[part] = pod[part].take();
        }
    }
}
