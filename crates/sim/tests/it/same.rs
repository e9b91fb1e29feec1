//! The engine behind HTTP and the engine in virtual time are one: on the same load they give the
//! same figures.
//!
//! The clock is stopped, and moves when nothing can happen without it; connections are pipes within
//! the process. So the whole HTTP stack takes part, and how fast the machine is doesn't.

use bytes::Bytes;
use fairtide_engine::StreamMeter;
use fairtide_scheduler::{ClassSettings, Limit, QueueSettings, Settings, Tier};
use fairtide_sim::{
    engine::{Imitated, Options, serve},
    load::{Offered, Percentiles, Scenario, Seen, plan},
    model::{Profile, SchedulingPolicy},
    replay::{Balancer, Contestant, Setup, Source, run},
};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::time::Duration;
use tokio::{
    io::{DuplexStream, duplex},
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// As much as a connection holds while nobody reads.
const PIPE_BYTES: usize = 1 << 20;

/// Chat beside a batch job that fills the engine, with prompts that need several steps, and more
/// context than the KV cache holds.
const LOAD: &str = "
name: same
about: chat beside a batch job
duration: 60s
drain: 10m
classes:
  - name: interactive
    promptTokens: {median: 200, p95: 900}
    outputTokens: {median: 40, p95: 120}
    arrivals: [poisson: {perSecond: 2}]
  - name: batch
    promptTokens: {from: 500, to: 3000}
    outputTokens: {from: 64, to: 320}
    arrivals: [atOnce: {count: 60}, poisson: {perSecond: 1}]
";

fn profile() -> Profile {
    Profile {
        max_num_seqs: 24,
        kv_tokens: 24_000,
        ..Profile::named("llama-8b-l40s").unwrap()
    }
}

/// Median, 95th and 99th percentile of time to the first token, time per token and latency.
type Figures = [(&'static str, Percentiles); 3];

async fn over_http(scenario: &Scenario) -> Vec<Figures> {
    let (connections, listener) = unbounded_channel();
    let options = Options {
        profile: profile(),
        policy: SchedulingPolicy::Fcfs,
        model: "sim".to_owned(),
        imitated: Imitated::default(),
        most_requests: None,
    };
    let stop = CancellationToken::new();
    let engine = tokio::spawn(serve(listener, options, stop.clone()));
    let start = Instant::now();
    let mut requests = JoinSet::new();
    for offered in plan(scenario, 1) {
        tokio::time::sleep_until(start + offered.at).await;
        requests.spawn(ask(connections.clone(), offered, start + offered.at));
    }
    let seen = requests.join_all().await;
    stop.cancel();
    engine.await.unwrap().unwrap();
    let classes = (0..scenario.classes.len()).map(|class| {
        let of_class = seen.iter().filter(|seen| seen.offered.class == class);
        let of_class: Vec<&Seen> = of_class.collect();
        let all = |time: &dyn Fn(&Seen) -> Option<Duration>| {
            let times = of_class.iter().filter_map(|seen| time(seen));
            Percentiles::of(times.map(|time| time.as_secs_f64() * 1e3).collect())
        };
        [
            ("ttft", all(&|seen| seen.first_token)),
            ("tpot", all(&Seen::tpot)),
            ("latency", all(&|seen| seen.last_token)),
        ]
    });
    classes.collect()
}

async fn ask(connections: UnboundedSender<DuplexStream>, offered: Offered, born: Instant) -> Seen {
    let (ours, theirs) = duplex(PIPE_BYTES);
    connections.send(theirs).unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(ours)).await.unwrap();
    tokio::spawn(connection);
    let body = json!({
        "prompt": vec![7; offered.prompt_tokens as usize],
        "max_tokens": offered.output_tokens,
        "stream": true,
    });
    let request = Request::post("/v1/completions")
        .header("host", "sim")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    let mut seen = Seen::nothing(offered);
    let mut meter = StreamMeter::default();
    while let Some(frame) = body.frame().await {
        let bytes = frame.unwrap().into_data().unwrap();
        seen.tokens(meter.push(&bytes), born.elapsed());
    }
    assert!(meter.is_done());
    assert_eq!(seen.tokens, offered.output_tokens);
    seen
}

fn class(name: &str, tier: Tier) -> ClassSettings {
    ClassSettings {
        name: name.into(),
        tier,
        priority: 0,
        weight: 1,
        min_share: 0,
        max_share: None,
        at_least_every: None,
        max_in_flight: None,
        bucket: None,
        queue: QueueSettings {
            max_requests: None,
            max_tokens: None,
            max_bytes: None,
            per_tenant: None,
            ttl: Duration::from_secs(300),
        },
    }
}

fn in_virtual_time(scenario: &Scenario) -> Vec<Figures> {
    let setup = Setup {
        name: "same".to_owned(),
        settings: Settings {
            limit: Limit::default(),
            seat_cap: None,
            reserved_seats: 0,
            max_queued_bytes: 1 << 27,
            max_tenants: 100,
            default_class: "interactive".into(),
            classes: vec![
                class("interactive", Tier::Interactive),
                class("batch", Tier::Batch),
            ],
        },
        slos: Vec::new(),
        profile: profile(),
        replicas: 1,
        balancer: Balancer::RoundRobin,
        seed: 1,
    };
    let source = Source::scenario(scenario, 1, &setup.settings).unwrap();
    let (run, _) = run(&setup, Contestant::Fifo, source).unwrap();
    let classes = scenario.classes.iter().map(|class| {
        let run = &run.classes[&class.name];
        [
            ("ttft", run.ttft_ms),
            ("tpot", run.tpot_ms),
            ("latency", run.latency_ms),
        ]
    });
    classes.collect()
}

#[tokio::test(start_paused = true)]
async fn the_engine_over_http_and_in_virtual_time_give_the_same_figures() {
    let scenario = Scenario::parse("same", LOAD).unwrap();
    let http = over_http(&scenario).await;
    let model = in_virtual_time(&scenario);
    for (class, (http, model)) in http.iter().zip(&model).enumerate() {
        for ((name, http), (_, model)) in http.iter().zip(model) {
            let values = |of: &Percentiles| [of.p50, of.p95, of.p99].map(Option::unwrap);
            for (http, model) in values(http).into_iter().zip(values(model)) {
                let off = (http / model - 1.0).abs();
                let class = &scenario.classes[class].name;
                assert!(off < 0.05, "{class} {name}: {http} over HTTP, {model} ms");
            }
        }
    }
    // Else the comparison would say little.
    assert!(
        model[0][0].1.p99.unwrap() > 5000.0,
        "the engine is never full"
    );
}
