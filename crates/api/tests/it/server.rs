//! That a real API server takes the definitions, and says the same to every object.

use crate::objects::{Sample, bad, good, rules, schema};
use fairtide_api::{InferencePool, TrafficClass, crds};
use fairtide_testkit::ApiServer;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::PostParams,
    runtime::{conditions::is_crd_established, wait::await_condition},
};

#[tokio::test]
async fn the_api_server_says_the_same() {
    let server = ApiServer::shared().await.unwrap();
    let client = server.client().await.unwrap();
    install(&client).await;
    for sample in good() {
        if let Err(error) = create(&client, &sample).await {
            panic!("{} ({}): {error}", sample.about, sample.kind);
        }
    }
    for sample in bad() {
        let Err(error) = create(&client, &sample).await else {
            panic!("{}: the API server takes it", sample.about);
        };
        let error = error.to_string();
        let by_rule = |fault: &&String| {
            rules(schema(&sample.kind))
                .iter()
                .any(|rule| fault.ends_with(rule["message"].as_str().unwrap()))
        };
        for fault in &sample.faults {
            let (path, message) = fault.split_once(": ").unwrap();
            let path = path.replace(".matchLabels.", ".matchLabels");
            let path = path
                .trim_end_matches("tier")
                .trim_end_matches(char::is_whitespace);
            assert!(
                error.contains(path),
                "{}: no {path} in {error}",
                sample.about
            );
            if by_rule(&fault) {
                assert!(error.contains(message), "{}: {error}", sample.about);
            }
        }
    }
}

#[tokio::test]
async fn a_new_object_says_that_nobody_has_seen_it() {
    let server = ApiServer::shared().await.unwrap();
    let client = server.client().await.unwrap();
    install(&client).await;
    let pools = Api::<InferencePool>::default_namespaced(client.clone());
    let sample = good().remove(0).object_named("seen");
    let pool: InferencePool = serde_json::from_value(sample).unwrap();
    let pool = pools.create(&PostParams::default(), &pool).await.unwrap();
    assert_eq!(pool.status.unwrap().observed_generation, -1);
    let classes = Api::<TrafficClass>::default_namespaced(client);
    let sample = good()
        .into_iter()
        .find(|s| s.kind == "TrafficClass")
        .unwrap()
        .object_named("seen");
    let class: TrafficClass = serde_json::from_value(sample).unwrap();
    let class = classes
        .create(&PostParams::default(), &class)
        .await
        .unwrap();
    assert_eq!(class.status.unwrap().observed_generation, -1);
}

async fn install(client: &Client) {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    for crd in crds() {
        let crd: CustomResourceDefinition = serde_json::from_value(crd.clone()).unwrap();
        let name = crd.metadata.name.clone().unwrap();
        match definitions.create(&PostParams::default(), &crd).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            Err(error) => panic!("{name}: {error}"),
        }
        let established = await_condition(definitions.clone(), &name, is_crd_established());
        established.await.unwrap();
    }
}

/// Creates an object as strictly as kubectl does, without keeping it.
async fn create(client: &Client, sample: &Sample) -> kube::Result<()> {
    let plural = match sample.kind.as_str() {
        "InferencePool" => "inferencepools",
        _ => "trafficclasses",
    };
    let request = http::Request::post(format!(
        "/apis/traffic.fairtide.dev/v1alpha1/namespaces/default/{plural}?dryRun=All&fieldValidation=Strict"
    ))
    .header("content-type", "application/json")
    .body(serde_json::to_vec(&sample.object()).unwrap())
    .unwrap();
    client.request::<serde_json::Value>(request).await.map(drop)
}
