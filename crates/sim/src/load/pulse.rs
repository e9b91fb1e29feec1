//! What the engines themselves say during a run, by their metrics page. It passes through a
//! sidecar unqueued, so it is asked for where the load goes.

use fairtide_engine::EngineGauges;
use http::Uri;
use http_body_util::{BodyExt, Empty};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

const EVERY: Duration = Duration::from_millis(500);
const GENERATED: &str = "vllm:generation_tokens_total";

/// How busy the engines were.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pulse {
    /// The share of looks at which requests were running; `None`: no look succeeded.
    pub busy: Option<f64>,
    /// Tokens per second by the engines' own count, over all of them.
    pub output_tokens_per_s: Option<f64>,
}

#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    running: Option<u64>,
    generated: Option<f64>,
}

/// Watches the engines until `end`.
pub(super) async fn watch(targets: &[Uri], end: Instant) -> Pulse {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut looks: Vec<Vec<Look>> = vec![Vec::new(); targets.len()];
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(end) => break,
            _ = ticks.tick() => {}
        }
        for (target, looks) in targets.iter().zip(&mut looks) {
            let look = tokio::time::timeout_at(end, look(&client, target)).await;
            if let Ok(Some(look)) = look {
                looks.push(look);
            }
        }
    }
    sum_up(&looks)
}

async fn look(client: &Client<HttpConnector, Empty<bytes::Bytes>>, target: &Uri) -> Option<Look> {
    let uri = format!("{target}metrics").parse().ok()?;
    let response = client.get(uri).await.ok()?;
    let page = response.into_body().collect().await.ok()?.to_bytes();
    let page = std::str::from_utf8(&page).ok()?;
    Some(Look {
        at: Instant::now(),
        running: EngineGauges::parse(page).running,
        generated: generated(page),
    })
}

fn generated(page: &str) -> Option<f64> {
    let values = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(GENERATED)?;
        let value = rest
            .starts_with(['{', ' '])
            .then(|| rest.rsplit(' ').next());
        value.flatten()?.parse::<f64>().ok()
    });
    values.reduce(|a, b| a + b)
}

fn sum_up(engines: &[Vec<Look>]) -> Pulse {
    let running: Vec<u64> = engines
        .iter()
        .flatten()
        .filter_map(|look| look.running)
        .collect();
    let busy = running.iter().filter(|running| **running > 0).count();
    let rates = engines.iter().map(|looks| {
        let first = looks.first()?;
        let last = looks.last()?;
        let seconds = (last.at - first.at).as_secs_f64();
        (seconds > 0.0).then_some((last.generated? - first.generated?) / seconds)
    });
    Pulse {
        busy: (!running.is_empty()).then(|| busy as f64 / running.len() as f64),
        output_tokens_per_s: rates.sum::<Option<f64>>().filter(|_| !engines.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_tokens_of_several_engines_add_up_and_neighbours_do_not_count() {
        let page = "# TYPE vllm:generation_tokens_total counter\n\
            vllm:generation_tokens_total{engine=\"0\",model_name=\"a b\"} 40.0\n\
            vllm:generation_tokens_total{engine=\"1\"} 2.5\n\
            vllm:generation_tokens_total_created{engine=\"0\"} 1.7e9\n";
        assert_eq!(generated(page), Some(42.5));
        assert_eq!(generated("vllm:prompt_tokens_total 7"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn busy_is_the_share_of_looks_and_an_unseen_engine_leaves_the_rate_unknown() {
        let start = Instant::now();
        let look = |seconds, running, generated| Look {
            at: start + Duration::from_secs(seconds),
            running: Some(running),
            generated: Some(generated),
        };
        let looks = vec![look(0, 4, 100.0), look(1, 0, 150.0), look(2, 1, 300.0)];
        let pulse = sum_up(&[looks.clone(), looks.clone()]);
        assert_eq!(pulse.busy, Some(2.0 / 3.0));
        assert_eq!(pulse.output_tokens_per_s, Some(200.0));
        let pulse = sum_up(&[looks, Vec::new()]);
        assert_eq!(pulse.output_tokens_per_s, None);
        assert_eq!(sum_up(&[Vec::new()]), Pulse::default());
    }
}
