//! Objects of any kind from YAML, by server-side apply.

use super::ApiServer;
use crate::eventually;
use anyhow::Context;
use k8s_openapi::{
    api::core::v1::{Namespace, ServiceAccount},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    discovery::{self, Scope},
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

/// The field manager of what tests write.
const MANAGER: &str = "fairtide-testkit";

/// A new kind is served within a second or so.
const ESTABLISHED: Duration = Duration::from_secs(60);

// === impl ApiServer ===

impl ApiServer {
    /// Creates a namespace and in it the ServiceAccount `default`, as a whole cluster would.
    pub async fn create_namespace(&self, name: &str) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client().await?);
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("create namespace {name}"))?;
        self.create_default_account(name).await
    }

    pub(super) async fn create_default_account(&self, namespace: &str) -> anyhow::Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let account = serde_json::from_value(json!({ "metadata": { "name": "default" } }))?;
        accounts.create(&PostParams::default(), &account).await?;
        Ok(())
    }

    /// Applies a file, or all `*.yaml` files of a folder in the order of their names.
    pub async fn apply_path(&self, path: &Path) -> anyhow::Result<Vec<DynamicObject>> {
        let mut files = vec![path.to_owned()];
        if path.is_dir() {
            files = std::fs::read_dir(path)?
                .map(|entry| Ok(entry?.path()))
                .collect::<std::io::Result<_>>()?;
            files.retain(|file| file.extension().is_some_and(|ending| ending == "yaml"));
            files.sort();
        }
        let mut applied = Vec::new();
        for file in files {
            let name = file.display().to_string();
            let yaml = std::fs::read_to_string(&file).with_context(|| format!("read {name}"))?;
            applied.extend(self.apply(&yaml).await.context(name)?);
        }
        Ok(applied)
    }

    /// Applies the documents of a YAML text in their order and gives what the API server made of
    /// them. After a CustomResourceDefinition it waits until the kind is served.
    pub async fn apply(&self, yaml: &str) -> anyhow::Result<Vec<DynamicObject>> {
        let client = self.client().await?;
        let mut applied = Vec::new();
        for document in serde_yaml::Deserializer::from_str(yaml) {
            let document = Value::deserialize(document)?;
            if document.is_null() {
                continue;
            }
            let object: DynamicObject = serde_json::from_value(document)?;
            let what = format!(
                "apply {} {}",
                object.types.as_ref().map_or("?", |types| &types.kind),
                object.metadata.name.as_deref().unwrap_or("?")
            );
            applied.push(apply_one(&client, object).await.context(what)?);
        }
        Ok(applied)
    }
}

async fn apply_one(client: &Client, object: DynamicObject) -> anyhow::Result<DynamicObject> {
    let types = object.types.as_ref().context("it has no kind")?;
    let name = object.metadata.name.clone().context("it has no name")?;
    let kind = GroupVersionKind::try_from(types)?;
    // A kind that was just defined shows in discovery a moment later.
    let (resource, capabilities) =
        eventually(&format!("{kind:?} is served"), ESTABLISHED, async || {
            Ok(discovery::pinned_kind(client, &kind).await?)
        })
        .await?;
    let api: Api<DynamicObject> = match (&capabilities.scope, &object.metadata.namespace) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, namespace) => Api::namespaced_with(
            client.clone(),
            namespace.as_deref().unwrap_or("default"),
            &resource,
        ),
    };
    let params = PatchParams::apply(MANAGER).force();
    let applied = api.patch(&name, &params, &Patch::Apply(&object)).await?;
    if kind.kind == "CustomResourceDefinition" {
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let established = await_condition(definitions, &name, is_crd_established());
        tokio::time::timeout(ESTABLISHED, established)
            .await
            .with_context(|| format!("{name} isn't established"))??;
    }
    Ok(applied)
}
