//! Clients that leave, in every phase: what they held is free at once.

use crate::support::{CHAT, Client, DEADLINE, ONE_SEAT, Stage};
use anyhow::ensure;
use fairtide_testkit::eventually;
use http::{Method, StatusCode};
use rand::{Rng, SeedableRng, rngs::SmallRng};

const STREAMED: &str = r#"{"stream":true}"#;

#[tokio::test]
async fn a_client_that_leaves_while_queued_gives_up_its_place() -> anyhow::Result<()> {
    let mut stage = Stage::new(ONE_SEAT, &[]).await?;
    let running = stage.send(CHAT, &[], "{}").await?;
    let call = stage.engine.next(DEADLINE).await?;
    // A large body: unread, it would hide that its client left.
    let leaving = stage.send(CHAT, &[], vec![b'x'; 4 << 20]).await?;
    stage.queued("_default", 1.0).await?;
    drop(leaving);
    stage.outcome("_default", "cancelled_queued", 1.0).await?;
    stage.queued("_default", 0.0).await?;
    let state = stage.debug("state").await?;
    assert_eq!(state["scheduler"]["queuedBytes"], 0);
    let staying = stage.send(CHAT, &[], "next").await?;
    call.answer(StatusCode::OK, "{}");
    running.whole().await?;
    let next = stage.engine.next(DEADLINE).await?;
    assert_eq!(next.body, "next", "the engine never saw the one that left");
    next.answer(StatusCode::OK, "{}");
    staying.whole().await?;
    stage.outcome("_default", "completed", 2.0).await
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_byte_frees_seat_and_engine() -> anyhow::Result<()> {
    let mut stage = Stage::new(ONE_SEAT, &[]).await?;
    let leaving = stage.send(CHAT, &[], "{}").await?;
    let call = stage.engine.next(DEADLINE).await?;
    let waiting = stage.send(CHAT, &[], "next").await?;
    stage.queued("_default", 1.0).await?;
    drop(leaving);
    call.gone(DEADLINE).await?;
    let next = stage.engine.next(DEADLINE).await?;
    assert_eq!(next.body, "next");
    next.answer(StatusCode::OK, "{}");
    waiting.whole().await?;
    stage.outcome("_default", "cancelled_running", 1.0).await?;
    stage.outcome("_default", "completed", 1.0).await
}

#[tokio::test]
async fn a_client_that_leaves_in_mid_stream_frees_seat_and_engine() -> anyhow::Result<()> {
    for http2 in [false, true] {
        let mut stage = Stage::new(ONE_SEAT, &[]).await?;
        let mut client = match http2 {
            false => Client::http1(stage.address).await?,
            true => Client::http2(stage.address).await?,
        };
        let request = client.request(Method::POST, CHAT, &[], STREAMED)?;
        let answer = tokio::spawn(async move {
            let response = client.send(request).await?;
            anyhow::Ok((response, client))
        });
        let streaming = stage.engine.next(DEADLINE).await?.stream();
        streaming.event("{}");
        let (answer, client) = answer.await??;
        let waiting = stage.send(CHAT, &[], "next").await?;
        stage.queued("_default", 1.0).await?;
        if http2 {
            // Only this stream ends; its connection stays.
            drop(answer);
            streaming.gone(DEADLINE).await?;
        } else {
            drop((answer, client));
            streaming.gone(DEADLINE).await?;
        }
        let next = stage.engine.next(DEADLINE).await?;
        next.answer(StatusCode::OK, "{}");
        waiting.whole().await?;
        stage.outcome("_default", "cancelled_running", 1.0).await?;
    }
    Ok(())
}

#[tokio::test]
async fn whatever_clients_do_each_request_ends_once_and_nothing_stays_taken() -> anyhow::Result<()>
{
    const REQUESTS: usize = 150;
    let spec = "limiter: {mode: Fixed, fixed: {maxRequests: 4}}";
    let queue = "tier: Interactive\nqueue: {maxRequests: 20, ttl: 5m}\nmatch: [{path: {type: Prefix, value: /}}]";
    let mut stage = Stage::new(spec, &[("all", queue)]).await?;
    let seed = 42;
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut pending = Vec::new();
    let mut streams = Vec::new();
    for _ in 0..REQUESTS {
        pending.push(stage.send(CHAT, &[], STREAMED).await?);
        if rng.random_bool(0.5) {
            // At any point of its way.
            let one = rng.random_range(0..pending.len());
            drop(pending.swap_remove(one));
        }
        while let Some(call) = stage.engine.try_next() {
            match rng.random_range(0..5) {
                0 => call.answer(StatusCode::OK, "{}"),
                1 => call.answer(StatusCode::SERVICE_UNAVAILABLE, "{}"),
                2 => drop(call),
                3 => streams.push(call.stream()),
                _ => call.stream().end(),
            }
        }
        if rng.random_bool(0.3) {
            streams.clear();
        }
    }
    drop(pending);
    streams.clear();
    eventually(
        &format!("all is free (seed {seed})"),
        DEADLINE,
        async || {
            while let Some(call) = stage.engine.try_next() {
                drop(call);
            }
            let state = stage.debug("state").await?;
            let scheduler = &state["scheduler"];
            ensure!(scheduler["inFlight"] == 0, "{scheduler}");
            ensure!(scheduler["queuedBytes"] == 0, "{scheduler}");
            ensure!(stage.metric("in_flight{class=\"all\"}").await? == 0.0);
            ensure!(stage.metric("queued{class=\"all\"}").await? == 0.0);
            ensure!(stage.engine.active() == 0);
            let mut ended = 0.0;
            for &outcome in fairtide_scheduler::Outcome::ALL {
                let line = format!("requests_total{{class=\"all\",outcome=\"{outcome}\"}}");
                ended += stage.metric(&line).await?;
            }
            // Some left before their head was read: those never were requests.
            let arrived = stage.metric("arrivals_total{class=\"all\"}").await?;
            ensure!(ended == arrived && ended > 0.0, "{ended} of {arrived}");
            let late = stage
                .metric("requests_total{class=\"_default\",outcome=\"cancelled_queued\"}")
                .await?;
            ensure!(ended + late <= REQUESTS as f64, "{ended} + {late}");
            Ok(())
        },
    )
    .await?;
    assert!(
        stage.engine.max_active() <= 4 + REQUESTS / 10,
        "{}",
        stage.engine.max_active()
    );
    Ok(())
}
