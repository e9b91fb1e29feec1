//! Two operators, of which one works.

use crate::cluster::{Cluster, POOL, metric, pool, wait_for};
use fairtide_api::names;
use fairtide_operator::lease::Claim;
use fairtide_testkit::ApiServer;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;

#[tokio::test]
async fn of_two_operators_the_holder_alone_works_and_the_other_takes_over() {
    let cluster = Cluster::turn().await;
    cluster.namespace("two").await;
    cluster.apply(&pool("two", "llama")).await;
    let pod = cluster.pod("two", "vllm-0").await;
    let first = cluster.holder("two-1").await;
    let second = cluster.operator("two-2").await;
    wait_for(&second, |claim| matches!(claim, Claim::Other { .. })).await;
    let mut sidecar = cluster.dial(&first, &pod).await.open().await.unwrap();
    sidecar.obey().await;
    let the_pool = (POOL, "two", "llama");
    cluster
        .until(the_pool, ("Ready", "True", "Programmed"))
        .await;

    // The other points to the holder, under the same CA.
    let at_second = cluster.dial(&second, &pod).await;
    let refused = at_second.open().await.err().expect("a pointer");
    assert_eq!(refused.status.as_u16(), 307);
    let holder = format!("https://{}/v1/channel", first.channel());
    assert_eq!(refused.location, Some(holder));
    assert_eq!(
        metric(&second, "fairtide_operator_status_writes_total").await,
        0.0
    );
    assert_eq!(metric(&second, "fairtide_operator_lease_held").await, 0.0);

    // The holder leaves: the other has the lease long before it would have run out.
    first.stop().await;
    sidecar.closed().await;
    wait_for(&second, Claim::is_held).await;
    let mut sidecar = at_second.open().await.unwrap();
    sidecar.obey().await;
    let edit = json!({ "limiter": { "fixed": { "maxRequests": 9 } } });
    cluster.edit(POOL, "two", "llama", edit).await;
    assert_eq!(sidecar.obey().await.1.limiter.max_requests, Some(9));
    cluster
        .until(the_pool, ("Ready", "True", "Programmed"))
        .await;
    second.stop().await;

    let leases = Api::<Lease>::namespaced(cluster.client.clone(), names::SYSTEM_NAMESPACE);
    let spec = leases
        .get(names::OPERATOR_LEASE)
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(spec.holder_identity.unwrap_or_default(), "");
}

#[tokio::test]
async fn a_holder_that_dies_is_replaced_when_its_lease_runs_out() {
    let cluster = Cluster::turn().await;
    let (started, holds) = tokio::sync::oneshot::channel();
    let (kill, killed) = tokio::sync::oneshot::channel::<()>();
    // A runtime of its own ends with all tasks at once, as a killed process does.
    let doomed = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async move {
            let server = ApiServer::shared().await.unwrap();
            let first = Cluster::own(server).await.holder("dies-1").await;
            started.send(()).unwrap();
            killed.await.unwrap();
            std::mem::forget(first);
        });
        runtime.shutdown_background();
    });
    holds.await.unwrap();
    let second = cluster.operator("dies-2").await;
    wait_for(&second, |claim| matches!(claim, Claim::Other { .. })).await;
    kill.send(()).unwrap();
    doomed.join().unwrap();
    wait_for(&second, Claim::is_held).await;
    second.stop().await;
}
