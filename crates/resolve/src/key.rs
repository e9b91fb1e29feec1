//! What names an object, and which object is older.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{collections::BTreeMap, fmt};

/// Namespace and name of an object, whose kind is known otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What has to be known of a pod to find its pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodMeta {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// Sorts objects oldest first, then by name. One without a creation time, from a file, counts as
/// younger than any with one.
pub(crate) type Age = (bool, i128, String, String);

pub(crate) fn age(metadata: &ObjectMeta) -> Age {
    let created = metadata.creation_timestamp.as_ref();
    let key = ObjectKey::of(metadata);
    (
        created.is_none(),
        created.map_or(0, |time| time.0.as_nanosecond()),
        key.namespace,
        key.name,
    )
}

// === impl ObjectKey ===

impl ObjectKey {
    /// A key of its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The key in an object's metadata; `default` where it names no namespace.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let namespace = match namespace {
            "" => fairtide_api::names::DEFAULT_NAMESPACE,
            namespace => namespace,
        };
        Self::new(namespace, metadata.name.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl PodMeta ===

impl PodMeta {
    /// What a pod's metadata says.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            key: ObjectKey::of(metadata),
            labels: metadata.labels.clone().unwrap_or_default(),
        }
    }
}
