//! Pods as if a node ran them, and the tokens of their ServiceAccounts.

use super::ApiServer;
use anyhow::Context;
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::{Pod, ServiceAccount},
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

/// A Pod that exists in the API only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, which tokens bound to it carry.
    pub uid: String,
}

// === impl ApiServer ===

impl ApiServer {
    /// Creates a Pod that looks as if it ran and was ready, under the ServiceAccount `default`,
    /// which must exist.
    pub async fn create_bound_pod(
        &self,
        namespace: &str,
        name: &str,
        labels: &[(&str, &str)],
    ) -> anyhow::Result<BoundPod> {
        let pods: Api<Pod> = Api::namespaced(self.client().await?, namespace);
        let labels: serde_json::Map<_, _> = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": name, "labels": labels },
            "spec": {
                "serviceAccountName": "default",
                "containers": [{ "name": "engine", "image": "engine.example/engine:1" }],
            },
        }))?;
        let pod = pods
            .create(&PostParams::default(), &pod)
            .await
            .with_context(|| format!("create pod {namespace}/{name}"))?;
        let status = json!({ "status": {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "podIPs": [{ "ip": "127.0.0.1" }],
            "conditions": [
                { "type": "Ready", "status": "True" },
                { "type": "ContainersReady", "status": "True" },
            ],
        }});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
            .await?;
        Ok(BoundPod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: pod.metadata.uid.context("each object has a uid")?,
        })
    }

    /// Deletes a Pod at once, as a node does once its containers have ended.
    pub async fn delete_pod(&self, pod: &BoundPod) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client().await?, &pod.namespace);
        let at_once = DeleteParams::default().grace_period(0);
        pods.delete(&pod.name, &at_once).await?;
        Ok(())
    }

    /// The token that a projected volume would give to the Pod's containers.
    pub async fn bound_token(&self, pod: &BoundPod, audience: &str) -> anyhow::Result<String> {
        self.token(&pod.namespace, "default", Some(pod), Some(audience))
            .await
    }

    /// A token of a ServiceAccount for one audience, bound to no Pod; by default for the API
    /// server itself.
    pub async fn service_account_token(
        &self,
        namespace: &str,
        account: &str,
        audience: Option<&str>,
    ) -> anyhow::Result<String> {
        self.token(namespace, account, None, audience).await
    }

    pub(super) async fn token(
        &self,
        namespace: &str,
        account: &str,
        pod: Option<&BoundPod>,
        audience: Option<&str>,
    ) -> anyhow::Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let audiences: Vec<_> = audience.into_iter().collect();
        let bound = pod.map(
            |pod| json!({ "apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid }),
        );
        let request: TokenRequest = serde_json::from_value(json!({
            "metadata": {},
            "spec": { "audiences": audiences, "boundObjectRef": bound, "expirationSeconds": 3600 },
        }))?;
        let answer = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await
            .with_context(|| format!("a token for {namespace}/{account}"))?;
        Ok(answer.status.context("an answer has a status")?.token)
    }
}
