//! One document: YAML, then JSON, then an object of a kind, or a note why it isn't for us.

use super::{ManifestError, ManifestProblem, Manifests, Origin};
use crate::{ObjectKey, PodMeta};
use fairtide_api::{InferencePool, Kind, TrafficClass, Violation, names, parse, suggestion};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// Kinds of our group.
const KINDS: [&str; 2] = [names::INFERENCE_POOL, names::TRAFFIC_CLASS];

// === impl Manifests ===

impl Manifests {
    /// Adds what a text holds.
    pub(super) fn add(&mut self, file: &str, text: &str) {
        for (index, document) in serde_yaml::Deserializer::from_str(text).enumerate() {
            let origin = Origin {
                file: file.to_owned(),
                document: index + 1,
            };
            match read(document) {
                Ok(Value::Null) => {}
                Ok(value) => self.object(origin, value),
                Err(error) => {
                    self.refuse(&origin, None, ManifestProblem::Syntax(error.to_string()));
                    return;
                }
            }
        }
    }

    fn object(&mut self, origin: Origin, mut value: Value) {
        let word = |value: &Value, field: &str| value[field].as_str().map(str::to_owned);
        let (Some(version), Some(kind)) = (word(&value, "apiVersion"), word(&value, "kind")) else {
            let violation = Violation {
                path: "(document)".to_owned(),
                message: "must be an object with apiVersion and kind".to_owned(),
            };
            return self.refuse(&origin, None, ManifestProblem::Invalid(vec![violation]));
        };
        let group = match version.split_once('/') {
            Some((group, _)) => group,
            None if version == names::GROUP => names::GROUP,
            None => "",
        };
        // A slip in the group must not make an object disappear with a note.
        let group = match kind.as_str() {
            names::TRAFFIC_CLASS => names::GROUP,
            _ if suggestion(group, &[names::GROUP]).is_some() => names::GROUP,
            _ => group,
        };
        match (group, kind.as_str()) {
            (names::GROUP, names::INFERENCE_POOL) => {
                let pool = self.kind::<InferencePool>(&origin, value, |m| &m.pools);
                self.pools.extend(pool.map(|pool| (origin, pool)));
            }
            (names::GROUP, names::TRAFFIC_CLASS) => {
                let class = self.kind::<TrafficClass>(&origin, value, |m| &m.classes);
                self.classes.extend(class.map(|class| (origin, class)));
            }
            (names::GROUP, other) => {
                let violation = Violation {
                    path: "kind".to_owned(),
                    message: match suggestion(other, &KINDS) {
                        Some(close) => format!("no kind {other:?}; did you mean {close:?}?"),
                        None => format!("no kind {other:?}; write {}", KINDS.join(" or ")),
                    },
                };
                self.refuse(&origin, None, ManifestProblem::Invalid(vec![violation]));
            }
            ("", "Pod") => self.pod(origin, &value),
            ("", "List") => {
                // What `kubectl get -o yaml` prints.
                if let Value::Array(items) = value["items"].take() {
                    for item in items {
                        self.object(origin.clone(), item);
                    }
                }
            }
            _ => self.notes.push(format!(
                "{origin}: {kind} of {version} is not for Fairtide; passed over"
            )),
        }
    }

    fn kind<T: Kind>(
        &mut self,
        origin: &Origin,
        value: Value,
        known: fn(&Self) -> &Vec<(Origin, T)>,
    ) -> Option<T> {
        let key = key(&value);
        let mut object = match parse::<T>(value) {
            Ok(object) => object,
            Err(violations) => {
                let named = key.map(|key| (T::KIND.to_owned(), key));
                self.refuse(origin, named, ManifestProblem::Invalid(violations));
                return None;
            }
        };
        let key = ObjectKey::of(object.meta());
        object.meta_mut().namespace = Some(key.namespace.clone());
        let first = known(self)
            .iter()
            .find(|(_, other)| ObjectKey::of(other.meta()) == key)
            .map(|(origin, _)| origin.clone());
        if let Some(first) = first {
            let named = Some((T::KIND.to_owned(), key));
            self.refuse(origin, named, ManifestProblem::Duplicate(first));
            return None;
        }
        Some(object)
    }

    fn pod(&mut self, origin: Origin, value: &Value) {
        let named = key(value).map(|key| ("Pod".to_owned(), key));
        match serde_json::from_value::<ObjectMeta>(value["metadata"].clone()) {
            Ok(metadata) if metadata.name.is_some() => {
                let pod = PodMeta::of(&metadata);
                match self.pods.iter().find(|(_, other)| other.key == pod.key) {
                    Some((first, _)) => {
                        let first = first.clone();
                        self.refuse(&origin, named, ManifestProblem::Duplicate(first));
                    }
                    None => self.pods.push((origin, pod)),
                }
            }
            Ok(_) => self.bad_metadata(&origin, named, "name is missing: write a name"),
            Err(error) => self.bad_metadata(&origin, named, &error.to_string()),
        }
    }

    fn bad_metadata(&mut self, origin: &Origin, named: Option<(String, ObjectKey)>, what: &str) {
        let violation = Violation {
            path: "metadata".to_owned(),
            message: what.to_owned(),
        };
        self.refuse(origin, named, ManifestProblem::Invalid(vec![violation]));
    }

    fn refuse(
        &mut self,
        origin: &Origin,
        object: Option<(String, ObjectKey)>,
        problem: ManifestProblem,
    ) {
        self.errors.push(ManifestError {
            origin: origin.clone(),
            object,
            problem,
        });
    }
}

/// YAML first, which finds keys that stand there twice, then JSON.
fn read(document: serde_yaml::Deserializer<'_>) -> Result<Value, serde_yaml::Error> {
    let mut value: serde_yaml::Value = serde::Deserialize::deserialize(document)?;
    value.apply_merge()?;
    serde_json::to_value(value).map_err(serde::de::Error::custom)
}

/// What an object calls itself, whether or not it is sound otherwise.
fn key(value: &Value) -> Option<ObjectKey> {
    let metadata = &value["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    Some(ObjectKey::new(
        match namespace {
            "" => names::DEFAULT_NAMESPACE,
            namespace => namespace,
        },
        metadata["name"].as_str()?,
    ))
}
