//! The pods in `tests/golden`, each with what the operator knows besides.

use fairtide_inject::{Context, Operator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{fs, path::PathBuf};

/// A file in `tests/golden`.
pub struct Fixture {
    pub name: String,
    pub context: Context,
    pub pod: Value,
}

/// The first document of a file, where there are two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    #[serde(default)]
    namespace: Option<Value>,
    #[serde(default)]
    pool: Option<Value>,
    #[serde(default)]
    kubernetes: Option<Value>,
}

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// All of them.
pub fn all() -> Vec<Fixture> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .expect("the folder")
        .filter_map(|entry| {
            let name = entry.expect("an entry").file_name();
            let name = name.to_str().expect("a plain name");
            let name = name.strip_suffix(".yaml")?;
            (!name.ends_with(".expected")).then(|| name.to_owned())
        })
        .collect();
    names.sort();
    names.iter().map(|name| one(name)).collect()
}

/// One of them.
pub fn one(name: &str) -> Fixture {
    let text = fs::read_to_string(folder().join(format!("{name}.yaml"))).expect(name);
    let mut documents: Vec<Value> = documents(&text);
    let pod = documents.pop().expect("a pod");
    let context = match documents.pop() {
        Some(given) => context(serde_json::from_value(given).expect(name)),
        None => operator_only(),
    };
    Fixture {
        name: name.to_owned(),
        context,
        pod,
    }
}

/// What is known where nobody said anything.
pub fn operator_only() -> Context {
    Context {
        namespace: Default::default(),
        pool: None,
        operator: Operator {
            sidecar_image: "registry.example/fairtide-sidecar@sha256:1f7d".to_owned(),
            channel_url: "https://fairtide-operator.fairtide-system.svc:9443".to_owned(),
            channel_ca_pem: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
                .to_owned(),
            token_audience: "fairtide.dev".to_owned(),
            kubernetes: None,
        },
    }
}

fn context(given: Given) -> Context {
    fn read<T: for<'de> Deserialize<'de>>(value: Option<Value>) -> Option<T> {
        value.map(|value| serde_json::from_value(value).expect("what the context has"))
    }
    let mut context = operator_only();
    context.namespace = read(given.namespace).unwrap_or_default();
    context.pool = read(given.pool);
    context.operator.kubernetes = read(given.kubernetes);
    context
}

pub fn documents(text: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).expect("YAML"))
        .filter(|document| !document.is_null())
        .collect()
}

pub fn yaml(value: &impl Serialize) -> String {
    serde_yaml::to_string(value).expect("YAML")
}

/// What an API server fills in, as far as it touches what injection wrote.
pub fn with_defaults(pod: &Value) -> Value {
    let mut pod = pod.clone();
    for list in ["containers", "initContainers"] {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            default(
                container,
                "terminationMessagePath",
                "/dev/termination-log".into(),
            );
            default(container, "terminationMessagePolicy", "File".into());
            default(container, "imagePullPolicy", "IfNotPresent".into());
            for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
                if let Some(probe) = container.get_mut(probe) {
                    for (field, value) in [
                        ("timeoutSeconds", 1),
                        ("periodSeconds", 10),
                        ("successThreshold", 1),
                        ("failureThreshold", 3),
                    ] {
                        default(probe, field, value.into());
                    }
                }
            }
        }
    }
    let volumes = pod["spec"].get_mut("volumes").and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        if let Some(projected) = volume.get_mut("projected") {
            default(projected, "defaultMode", 420.into());
        }
    }
    let spec = &mut pod["spec"];
    default(spec, "restartPolicy", "Always".into());
    default(spec, "dnsPolicy", "ClusterFirst".into());
    default(spec, "terminationGracePeriodSeconds", 30.into());
    pod
}

fn default(object: &mut Value, field: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.entry(field).or_insert(value);
    }
}
