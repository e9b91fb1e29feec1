//! `kubectl-fairtide inject`: manifests in, manifests with the sidecar out, by the code of the
//! webhook. For those who want to see in Git what their pods become, and to see a refusal in a
//! pipeline and not at midnight.
//!
//! Every document is written out again; those that have no pod template are only rewritten as
//! YAML. Comments are lost: a manifest that is read as data has none.

mod manifests;
mod template;

use anyhow::bail;
use clap::Args;
use fairtide_api::names::DEFAULT_NAMESPACE;
use fairtide_inject::{Context, Namespace, Operator, Outcome, ServerVersion, inject};
use manifests::Manifests;
use serde_json::Value;
use std::{collections::BTreeMap, io::Write};

#[derive(Args, Debug)]
pub struct Inject {
    /// Manifests, several documents a file; a folder's *.yaml, *.yml and *.json; `-` reads
    /// standard input. Once for each.
    #[arg(short, long = "filename", value_name = "FILE|DIR", required = true, value_parser = Manifests::read)]
    filename: Vec<Manifests>,
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
    #[arg(long, env = "FAIRTIDE_CHANNEL_CA", value_name = "FILE", value_parser = certificate)]
    channel_ca: String,
    /// The API server's version, such as 1.33. Default: nothing is refused for it.
    #[arg(long, env = "FAIRTIDE_KUBERNETES_VERSION", value_name = "X.Y", value_parser = version)]
    kubernetes_version: Option<ServerVersion>,
}

// === impl Inject ===

impl Inject {
    pub fn run(self) -> anyhow::Result<()> {
        let operator = Operator {
            sidecar_image: self.sidecar_image,
            channel_url: self.sidecar_channel,
            channel_ca_pem: self.channel_ca,
            token_audience: fairtide_api::names::TOKEN_AUDIENCE.to_owned(),
            kubernetes: self.kubernetes_version,
        };
        let mut files = self.filename;
        let namespaces = manifests::namespaces(&mut files);
        let mut refused = 0;
        for file in &mut files {
            let name = file.name.clone();
            for object in file.objects() {
                refused += one(&name, object, &namespaces, &operator)?;
            }
        }
        if refused > 0 {
            // Half of a set of manifests would be applied by a careless pipe.
            bail!("{refused} refused, nothing is written: see above");
        }
        let mut out = std::io::stdout().lock();
        for document in files.iter().flat_map(|file| &file.documents) {
            write!(out, "---\n{}", serde_yaml::to_string(document)?)?;
        }
        Ok(())
    }
}

/// Injects the pods of an object; how many can't be.
fn one(
    file: &str,
    object: &mut Value,
    namespaces: &BTreeMap<String, Namespace>,
    operator: &Operator,
) -> anyhow::Result<usize> {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str);
    let kind = text("/kind").unwrap_or_default().to_owned();
    let name = text("/metadata/name").unwrap_or_default().to_owned();
    let namespace = text("/metadata/namespace").unwrap_or(DEFAULT_NAMESPACE);
    let context = Context {
        namespace: namespaces.get(namespace).cloned().unwrap_or_default(),
        pool: None,
        operator: operator.clone(),
    };
    let mut refused = 0;
    for template in template::of(&kind) {
        let Some(found) = object.pointer_mut(template.at) else {
            continue;
        };
        let what = format!("{file}: {kind}/{name}{}", template.role);
        let mut pod = template.pod(found, &name);
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
                if !injection.patch.is_empty() {
                    injection.patch.apply(&mut pod)?;
                    template.put_back(pod, found);
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

fn certificate(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{error}; write the file with the operator's ca.crt"))?;
    if !text.contains("-----BEGIN CERTIFICATE-----") {
        return Err("this is no certificate in PEM; write the operator's ca.crt".to_owned());
    }
    Ok(text)
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
