//! What the two kinds have in common.

use crate::{InferencePool, TrafficClass, names, published};
use kube::ResourceExt;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// A kind of `traffic.fairtide.dev`.
pub trait Kind: ResourceExt + Serialize + DeserializeOwned {
    /// The `kind`.
    const KIND: &'static str;

    /// The published OpenAPI schema of the whole object.
    fn schema() -> &'static Value;

    /// The namespace, `default` where the object names none.
    fn namespace_or_default(&self) -> &str {
        match self.meta().namespace.as_deref() {
            None | Some("") => names::DEFAULT_NAMESPACE,
            Some(namespace) => namespace,
        }
    }

    /// The name; empty where the object has none, which no object of a cluster is.
    fn name_or_empty(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }
}

impl Kind for InferencePool {
    const KIND: &'static str = names::INFERENCE_POOL;

    fn schema() -> &'static Value {
        published::pool_schema()
    }
}

impl Kind for TrafficClass {
    const KIND: &'static str = names::TRAFFIC_CLASS;

    fn schema() -> &'static Value {
        published::class_schema()
    }
}
