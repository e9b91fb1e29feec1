//! What is tried, in this order. Each file is about one part of Fairtide's promise.

mod drain;
mod injection;
mod install;
mod jobs;
mod network;
mod policy;
mod restarts;
mod unlabelled_past;

use crate::{report::Report, scene::Scene};

/// Tries all of it; what later steps stand on ends the run when it fails.
pub async fn all(scene: &mut Scene, report: &mut Report) {
    let scene = &*scene;
    if !report.step("node", install::older_pod(scene)).await
        || !report.step("install", install::operator(scene)).await
        || !report.step("injected", injection::injected(scene)).await
    {
        return;
    }
    report
        .step("started-fast", injection::started_fast(scene))
        .await;
    report
        .step("start-order", injection::start_order(scene))
        .await;
    report.step("confined", injection::confined(scene)).await;
    report
        .step("service-numeric-port", network::service(scene, "by-number"))
        .await;
    report
        .step("service-named-port", network::service(scene, "by-name"))
        .await;
    report
        .step("metrics-old-port", network::metrics(scene))
        .await;
    report
        .step("port-forward", network::port_forward(scene))
        .await;
    report.step("policy-edit", policy::edit(scene)).await;
    report.step("bypass-one-pod", policy::bypass(scene)).await;
    report
        .step("uninjected-reported", unlabelled_past::reported(scene))
        .await;
    report.step("job-left-alone", jobs::left_alone(scene)).await;
    report.step("job-injected", jobs::injected(scene)).await;
    report
        .step("engine-liveness", restarts::engine(scene))
        .await;
    report.step("worker-killed", restarts::worker(scene)).await;
    report
        .step("sidecar-killed", restarts::sidecar(scene))
        .await;
    drain::steps(scene, report).await;
}
