//! Crashes of the sidecar's processes.

use super::*;
use fairtide_testkit::children;

/// The process that serves: the only child of the container's first one.
fn worker(pod: &Pod) -> anyhow::Result<u32> {
    let worker = children(pod.process.pid()?)?.into_iter().next();
    worker.context("no process serves")
}

fn signal(pid: u32, name: &str) -> anyhow::Result<()> {
    let pid = pid.to_string();
    let status = std::process::Command::new("kill")
        .args(["-s", name, &pid])
        .status()?;
    ensure!(status.success(), "no {name} for {pid}");
    Ok(())
}

#[tokio::test]
async fn a_crash_while_terminating_does_not_make_the_pod_ready_again() -> anyhow::Result<()> {
    let mut pod = Pod::start("vllm-image-args", short(1, 600)).await?;
    pod.until_ready(StatusCode::OK).await?;
    pod.mark().await?;
    pod.until("/pod/phase", json!("drained")).await?;
    pod.process.kill();
    pod.process = spawn(&pod.folder, &pod.environment, &[]).start()?;
    let admin = pod.admin.clone();
    pod.process.ready(&admin, "/startupz", DEADLINE).await?;
    pod.until("/pod/phase", json!("drained")).await?;
    assert_eq!(pod.ready().await?, StatusCode::SERVICE_UNAVAILABLE);
    // Told to go it forgets: the kubelet starts it again only in a pod that lives on.
    pod.process.signal("TERM")?;
    assert_eq!(pod.process.wait(DEADLINE).await?, 0);
    pod.process = spawn(&pod.folder, &pod.environment, &[]).start()?;
    pod.until_ready(StatusCode::OK).await
}

#[tokio::test]
async fn a_crash_of_the_worker_turns_no_client_away_and_leaves_the_container() -> anyhow::Result<()>
{
    let mut pod = Pod::start("vllm-image-args", short(0, 60)).await?;
    pod.until_ready(StatusCode::OK).await?;
    let running = pod.ask(STREAMED).await?;
    let stream = pod.engine.next(DEADLINE).await?.stream();
    stream.event("{}");
    let (mut running, _client) = running.await??;
    let first = worker(&pod)?;

    signal(first, "KILL")?;
    // It is dead to its clients, and a new one waits in the backlog.
    assert!(
        running.body_mut().collect().await.is_err(),
        "cut, not ended"
    );
    let asked = pod.ask("new").await?;
    let call = pod.engine.next(DEADLINE).await?;
    assert_eq!(call.body, "new");
    call.answer(StatusCode::OK, "{}");
    assert_eq!(asked.await??.0.status(), StatusCode::OK);
    assert_ne!(worker(&pod)?, first);
    assert!(pod.process.exited().is_none(), "the container never ended");
    pod.until_ready(StatusCode::OK).await?;
    let (_, page) = http_get(&pod.admin, "/metrics").await?;
    let page = String::from_utf8(page.to_vec())?;
    assert!(
        page.contains("fairtide_sidecar_worker_restarts_total 1\n"),
        "{page}"
    );

    pod.process.signal("TERM")?;
    assert_eq!(pod.process.wait(DEADLINE).await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_crash_of_the_worker_does_not_make_a_terminating_pod_ready_again() -> anyhow::Result<()> {
    let pod = Pod::start("vllm-image-args", short(1, 600)).await?;
    pod.until_ready(StatusCode::OK).await?;
    pod.mark().await?;
    pod.until("/pod/phase", json!("drained")).await?;
    let first = worker(&pod)?;
    signal(first, "KILL")?;
    eventually("another one serves", DEADLINE, async || {
        ensure!(worker(&pod)? != first);
        Ok(())
    })
    .await?;
    pod.until("/pod/phase", json!("drained")).await?;
    assert_eq!(pod.ready().await?, StatusCode::SERVICE_UNAVAILABLE);
    Ok(())
}

#[tokio::test]
async fn nobody_serves_on_when_the_container_is_killed() -> anyhow::Result<()> {
    let mut pod = Pod::start("vllm-image-args", |_| {}).await?;
    let left = worker(&pod)?;
    pod.process.kill();
    eventually("the worker is gone", DEADLINE, async || {
        let state = std::fs::read_to_string(format!("/proc/{left}/stat"));
        let gone = state.map_or(true, |stat| stat.contains(") Z "));
        ensure!(gone, "it lives");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn workers_that_keep_dying_are_a_matter_for_the_kubelet() -> anyhow::Result<()> {
    let mut pod = Pod::start("vllm-image-args", |_| {}).await?;
    let mut last = 0;
    for _ in 0..8 {
        last = eventually("the next one serves", DEADLINE, async || {
            let now = worker(&pod)?;
            ensure!(now != last, "the last one");
            Ok(now)
        })
        .await?;
        signal(last, "KILL")?;
    }
    assert_eq!(pod.process.wait(DEADLINE).await?, 1);
    let log = pod.process.log();
    assert!(
        log.contains("died 8 times within seconds of its start"),
        "{log}"
    );
    Ok(())
}
