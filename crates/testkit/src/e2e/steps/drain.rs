//! A pod is deleted while ten long streams run.

use super::injection::settled;
use crate::{
    containers::address,
    kubectl::kubectl,
    processes::{self, Pid},
    report::Report,
    scene::{AI, Scene},
    traffic::{self, Steady},
};
use anyhow::{Context, ensure};
use fairtide_testkit::eventually;
use kube::ResourceExt;
use std::{cell::OnceCell, time::Duration};
use tokio::time::Instant;

/// At 20 ms a token they outlast the time in which the pod goes on as before.
const TOKENS: u32 = 1200;
const STREAMS: usize = 10;

/// The grace period, and more.
const END: Duration = Duration::from_secs(420);

/// Deletes the pod, then tells in which order its containers ended.
pub async fn steps(scene: &Scene, report: &mut Report) {
    let order = OnceCell::new();
    report.step("drain", drain(scene, &order)).await;
    let told = async { order.into_inner().context("the pod didn't end")? };
    report.step("stop-order", told).await;
}

type Order = OnceCell<anyhow::Result<String>>;

/// No stream is cut, and no client of the Service notices.
async fn drain(scene: &Scene, order: &Order) -> anyhow::Result<String> {
    settled(scene).await?;
    let pod = scene.a_pod().await?;
    let name = pod.name_any();
    let (engine, sidecar) = (processes::engine(&name)?, processes::sidecar(AI, &name)?);
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(traffic::begin(address(&pod, 8000)?, TOKENS).await?);
    }
    let service = scene.service("by-number").await?;
    let others = Steady::begin(*service.first().context("an address")?);
    kubectl(&format!("delete pod {name} -n {AI} --wait=false")).await?;
    let deleted = Instant::now();
    let watched = tokio::spawn(ends(engine, sidecar));
    let mut longest = Duration::ZERO;
    for stream in streams {
        let stream = stream.await??;
        ensure!(stream.events >= TOKENS as usize, "{} events", stream.events);
        longest = longest.max(stream.took);
    }
    ensure!(
        longest > Duration::from_secs(15),
        "too short to tell: {longest:?}"
    );
    let _ = order.set(watched.await?);
    eventually("the pod is gone", END, async || {
        let pod = scene.pods_of(AI).get_opt(&name).await?;
        ensure!(pod.is_none(), "it is still there");
        Ok(())
    })
    .await?;
    let gone = deleted.elapsed().as_secs_f64();
    let answered = others.end().await.context("a client of the Service")?;
    settled(scene).await?;
    Ok(format!(
        "{STREAMS} streams of {:.0} s whole; {answered} requests through the Service meanwhile, none \
         failed; the pod was gone after {gone:.1} s",
        longest.as_secs_f64()
    ))
}

/// Watches which of the two ends first.
async fn ends(engine: Pid, sidecar: Pid) -> anyhow::Result<String> {
    let glance = Duration::from_millis(2);
    let started = Instant::now();
    while engine.is_alive() {
        ensure!(sidecar.is_alive(), "the sidecar ended before the engine");
        ensure!(started.elapsed() < END, "the engine doesn't end");
        tokio::time::sleep(glance).await;
    }
    let engine = Instant::now();
    ensure!(sidecar.is_alive(), "the sidecar ended with the engine");
    while sidecar.is_alive() {
        ensure!(engine.elapsed() < END, "the sidecar doesn't end");
        tokio::time::sleep(glance).await;
    }
    Ok(format!(
        "the sidecar ended {} ms after the engine",
        engine.elapsed().as_millis()
    ))
}
