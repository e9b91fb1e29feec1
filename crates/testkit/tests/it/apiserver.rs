//! The launched API server is a real one: it refuses what RBAC and schemas refuse, issues tokens
//! that are bound to Pods, and comes back after an outage.

use fairtide_testkit::ApiServer;
use k8s_openapi::api::{authentication::v1::TokenReview, core::v1::ConfigMap};
use kube::{Api, api::PostParams};
use serde_json::json;

const KIND_AND_OBJECT: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.testkit.example}
spec:
  group: testkit.example
  scope: Namespaced
  names: {kind: Boat, plural: boats, singular: boat}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {masts: {type: integer, maximum: 5}}}}
---
# A document without content is no object.
---
apiVersion: testkit.example/v1
kind: Boat
metadata: {name: brig}
spec: {masts: 2}
";

async fn review(api: &ApiServer, token: &str, audience: &str) -> TokenReview {
    let reviews: Api<TokenReview> = Api::all(api.client().await.unwrap());
    let review = serde_json::from_value(json!({
        "metadata": {},
        "spec": { "token": token, "audiences": [audience] },
    }));
    reviews
        .create(&PostParams::default(), &review.unwrap())
        .await
        .unwrap()
}

#[tokio::test]
async fn token_is_bound_to_its_pod_and_audience() {
    let api = ApiServer::shared().await.unwrap();
    api.create_namespace("tokens").await.unwrap();
    let pod = api
        .create_bound_pod("tokens", "pod-0", &[("app", "engine")])
        .await
        .unwrap();
    let token = api.bound_token(&pod, "fairtide.dev").await.unwrap();

    let status = review(api, &token, "fairtide.dev").await.status.unwrap();
    assert_eq!(status.authenticated, Some(true), "{status:?}");
    let extra = status.user.unwrap().extra.unwrap();
    let claim = |name: &str| extra[&format!("authentication.kubernetes.io/{name}")].clone();
    assert_eq!(claim("pod-name"), ["pod-0"]);
    assert_eq!(claim("pod-uid"), std::slice::from_ref(&pod.uid));

    let status = review(api, &token, "another").await.status.unwrap();
    assert_ne!(status.authenticated, Some(true));
}

#[tokio::test]
async fn applied_kind_is_served_at_once() {
    let api = ApiServer::shared().await.unwrap();
    let applied = api.apply(KIND_AND_OBJECT).await.unwrap();
    assert_eq!(applied.len(), 2);
    assert_eq!(applied[1].data["spec"]["masts"], 2);

    let shown = api.kubectl(&["get", "boats"]).await.unwrap();
    assert!(shown.contains("brig"), "{shown}");

    let too_many =
        "{apiVersion: testkit.example/v1, kind: Boat, metadata: {name: hulk}, spec: {masts: 6}}";
    let error = api
        .kubectl_with(&["apply", "-f", "-"], too_many)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("less than or equal to 5"), "{error}");
}

#[tokio::test]
async fn service_account_has_no_rights_but_its_own() {
    let api = ApiServer::shared().await.unwrap();
    api.create_namespace("rights").await.unwrap();
    let client = api
        .service_account_client("rights", "default")
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "rights");
    let error = maps.list(&Default::default()).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 403));
}

#[tokio::test]
async fn stopped_server_comes_back_with_its_objects() {
    let mut api = ApiServer::start().await.unwrap();
    api.create_namespace("kept").await.unwrap();
    api.stop();
    assert!(api.kubectl(&["get", "namespaces"]).await.is_err());
    api.start_again().await.unwrap();
    let shown = api.kubectl(&["get", "namespaces"]).await.unwrap();
    assert!(shown.contains("kept"), "{shown}");
}
