//! `kubectl-fairtide inject`: manifests in, manifests with the sidecar out, by the code of the
//! webhook. For those who want to see in Git what their pods become, and to see a refusal in a
//! pipeline and not at midnight.
//!
//! Every document is written out again; those that have no pod template are only rewritten as
//! YAML. Comments are lost: a manifest that is read as data has none.

use anyhow::{Context as _, bail};
use clap::Args;
use fairtide_inject::{Context, Namespace, Operator, Outcome, ServerVersion, inject};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    path::PathBuf,
};

#[derive(Args, Debug)]
pub struct Inject {
    /// Manifests, several documents a file; `-` reads standard input. Once for each file.
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
    /// Image of the sidecar, best with a digest.
    #[arg(long, env = "FAIRTIDE_SIDECAR_IMAGE", value_name = "IMAGE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    sidecar_image: String,
    /// Where sidecars reach the operator.
    #[arg(
        long,
        env = "FAIRTIDE_SIDECAR_CHANNEL",
        value_name = "URL",
        default_value = "https://fairtide-operator.fairtide-system.svc:8443"
    )]
    sidecar_channel: String,
    /// The operator's CA: ca.crt of the Secret fairtide-channel-ca.
    #[arg(long, env = "FAIRTIDE_CHANNEL_CA", value_name = "FILE")]
    channel_ca: PathBuf,
    /// The API server's version, such as 1.33. Default: nothing is refused for it.
    #[arg(long, env = "FAIRTIDE_KUBERNETES_VERSION", value_name = "X.Y", value_parser = version)]
    kubernetes_version: Option<ServerVersion>,
}

/// Where the pod of a kind is.
fn templates(kind: &str) -> &'static [&'static str] {
    match kind {
        "Pod" => &[""],
        "Deployment"
        | "StatefulSet"
        | "DaemonSet"
        | "ReplicaSet"
        | "ReplicationController"
        | "Job" => &["/spec/template"],
        "CronJob" => &["/spec/jobTemplate/spec/template"],
        "LeaderWorkerSet" => &[
            "/spec/leaderWorkerTemplate/leaderTemplate",
            "/spec/leaderWorkerTemplate/workerTemplate",
        ],
        _ => &[],
    }
}

// === impl Inject ===

impl Inject {
    pub fn run(self) -> anyhow::Result<()> {
        let ca = std::fs::read_to_string(&self.channel_ca)
            .with_context(|| format!("--channel-ca {}", self.channel_ca.display()))?;
        let operator = Operator {
            sidecar_image: self.sidecar_image,
            channel_url: self.sidecar_channel,
            channel_ca_pem: ca,
            token_audience: fairtide_api::names::TOKEN_AUDIENCE.to_owned(),
            kubernetes: self.kubernetes_version,
        };
        let mut documents = Vec::new();
        for file in &self.filename {
            documents.extend(read(file).with_context(|| file.display().to_string())?);
        }
        let namespaces = namespaces(&documents);
        let mut refused = 0;
        for document in &mut documents {
            for object in objects(document) {
                refused += one(object, &namespaces, &operator)?;
            }
        }
        if refused > 0 {
            // Half of a set of manifests would be applied by a careless pipe.
            bail!("{refused} refused, nothing is written: see above");
        }
        let mut out = std::io::stdout().lock();
        for document in &documents {
            write!(out, "---\n{}", serde_yaml::to_string(document)?)?;
        }
        Ok(())
    }
}

fn read(file: &PathBuf) -> anyhow::Result<Vec<Value>> {
    let mut text = String::new();
    if file.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text)?;
    } else {
        text = std::fs::read_to_string(file)?;
    }
    let documents = serde_yaml::Deserializer::from_str(&text).map(Value::deserialize);
    let documents = documents.collect::<Result<Vec<_>, _>>()?;
    Ok(documents
        .into_iter()
        .filter(|value| !value.is_null())
        .collect())
}

/// What the namespaces among the documents say.
fn namespaces(documents: &[Value]) -> BTreeMap<String, Namespace> {
    let found = documents
        .iter()
        .filter(|object| object["kind"] == "Namespace");
    found
        .filter_map(|object| {
            let meta = &object["metadata"];
            let map = |value: &Value| serde_json::from_value(value.clone()).unwrap_or_default();
            let said = Namespace {
                labels: map(&meta["labels"]),
                annotations: map(&meta["annotations"]),
            };
            Some((meta["name"].as_str()?.to_owned(), said))
        })
        .collect()
}

/// The document itself, or what its list holds.
fn objects(document: &mut Value) -> Vec<&mut Value> {
    let list = document["kind"]
        .as_str()
        .is_some_and(|kind| kind.ends_with("List"));
    match (list, document) {
        (true, list) => list["items"].as_array_mut().into_iter().flatten().collect(),
        (false, object) => vec![object],
    }
}

/// Injects the pods of an object; how many can't be.
fn one(
    object: &mut Value,
    namespaces: &BTreeMap<String, Namespace>,
    operator: &Operator,
) -> anyhow::Result<usize> {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let what = format!("{kind}/{name}");
    let namespace = object["metadata"]["namespace"]
        .as_str()
        .unwrap_or("default");
    let context = Context {
        namespace: namespaces.get(namespace).cloned().unwrap_or_default(),
        pool: None,
        operator: operator.clone(),
    };
    let mut refused = 0;
    for path in templates(&kind) {
        let Some(template) = object.pointer_mut(path).filter(|found| found.is_object()) else {
            continue;
        };
        let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {} });
        for (key, value) in template.as_object().into_iter().flatten() {
            pod[key] = value.clone();
        }
        match inject(&pod, &context) {
            Ok(injection) => {
                for warning in &injection.warnings {
                    eprintln!("{what}: warning: {warning}");
                }
                match injection.outcome {
                    Outcome::Skipped(why) => eprintln!("{what}: left alone: {why}"),
                    Outcome::Injected(_) => eprintln!("{what}: injected"),
                    Outcome::Kept(_) => eprintln!("{what}: has the sidecar"),
                }
                let mut patched = pod.clone();
                injection.patch.apply(&mut patched)?;
                for part in ["metadata", "spec"] {
                    if patched[part] != pod[part] {
                        template[part] = patched[part].clone();
                    }
                }
            }
            Err(refusal) => {
                eprintln!("{what}: refused: {refusal}");
                refused += 1;
            }
        }
    }
    Ok(refused)
}

fn version(text: &str) -> Result<ServerVersion, String> {
    let parts = text.trim_start_matches('v').split_once('.');
    parts
        .and_then(|(major, minor)| {
            Some(ServerVersion {
                major: major.parse().ok()?,
                minor: minor.split('.').next()?.parse().ok()?,
            })
        })
        .ok_or_else(|| "write a version such as 1.33".to_owned())
}
