use super::*;
use crate::load::plan::Offered;

fn seen(end: End, first_ms: Option<u64>, ended_ms: u64, tokens: u64) -> Seen {
    let at = Duration::from_millis;
    let offered = Offered {
        at: Duration::ZERO,
        class: 0,
        tenant: None,
        number: 0,
        prompt_tokens: 1,
        output_tokens: 1,
    };
    Seen {
        end,
        ended: at(ended_ms),
        first_token: first_ms.map(at),
        last_token: first_ms.map(|_| at(ended_ms)),
        tokens,
        ..Seen::nothing(offered)
    }
}

fn refused() -> End {
    End::Refused {
        outcome: "queue_full".into(),
        reason: "queue_requests".into(),
    }
}

fn class() -> ClassLoad {
    let text = "
name: t
about: t
duration: 1s
drain: 1s
classes:
  - name: chat
    promptTokens: 1
    outputTokens: 1
    slo: {ttft: 100ms, tpot: 10ms}
    arrivals: [atOnce: {count: 1}]
";
    Scenario::parse("t", text).unwrap().classes.remove(0)
}

#[test]
fn percentiles_are_values_that_occurred_by_nearest_rank() {
    let of = |values: &[f64]| Percentiles::of(values.to_vec());
    assert_eq!(of(&[]), Percentiles::default());
    assert_eq!(of(&[7.0]).p50, Some(7.0));
    assert_eq!(of(&[7.0]).p99, Some(7.0));
    assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]).p50, Some(2.0));
    let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
    let of_hundred = of(&hundred);
    assert_eq!(of_hundred.p50, Some(50.0));
    assert_eq!(of_hundred.p95, Some(95.0));
    assert_eq!(of_hundred.p99, Some(99.0));
    let of_101 = of(&(1..=101).map(f64::from).collect::<Vec<_>>());
    assert_eq!(of_101.p99, Some(100.0));
    assert_eq!(of(&[f64::INFINITY, 1.0]).p99, Some(f64::INFINITY));
}

#[test]
fn requests_cut_off_without_a_token_count_with_their_age_and_are_never_dropped() {
    // One was served in 50 ms; three were still waiting when the run ended.
    let mut all = vec![seen(End::Completed, Some(50), 140, 10)];
    for age in [5_000, 6_000, 7_000] {
        all.push(seen(End::Cancelled, None, age, 0));
    }
    let run = ClassRun::new(&class(), &all.iter().collect::<Vec<_>>(), 0.0);
    assert_eq!(run.ttft_ms.p50, Some(5_000.0));
    assert_eq!(run.ttft_ms.p99, Some(7_000.0));
    assert_eq!(run.latency_ms.p99, Some(7_000.0));
    assert_eq!((run.offered, run.completed, run.cancelled), (4, 1, 3));
    assert_eq!(run.slo_attained, Some(0.25));
}

#[test]
fn goodput_is_a_share_of_what_was_offered() {
    let all = [
        seen(End::Completed, Some(100), 190, 10),
        // Its first token late; its tokens slow; refused; failed; left half way.
        seen(End::Completed, Some(101), 191, 10),
        seen(End::Completed, Some(50), 150, 10),
        seen(refused(), None, 1, 0),
        seen(End::Failed("no connection".into()), None, 1, 0),
        seen(End::Cancelled, Some(50), 60, 3),
        // A single token has no time between tokens.
        seen(End::Completed, Some(99), 99, 1),
        seen(refused(), None, 1, 0),
    ];
    let run = ClassRun::new(&class(), &all.iter().collect::<Vec<_>>(), 0.0);
    assert_eq!(run.slo_attained, Some(0.25));
    assert_eq!(run.refused, BTreeMap::from([("queue_full".to_owned(), 2)]));
    assert_eq!(run.refused_why["queue_full"]["queue_requests"], 2);
    assert_eq!(run.failed, 1);
    assert_eq!(run.failed_why["no connection"], 1);
    let ended = run.completed + run.refused.values().sum::<u64>() + run.cancelled + run.failed;
    assert_eq!(ended, run.offered);
    // What was refused or failed has no time to its first token.
    assert_eq!(run.ttft_ms.p50, Some(99.0));
    assert_eq!(run.ttft_ms.p99, Some(101.0));
}

#[test]
fn the_report_has_the_fields_that_readers_rely_on() {
    let run = Run {
        name: "t".into(),
        policy: "p".into(),
        seed: 1,
        duration_s: 1.0,
        classes: BTreeMap::from([("chat".into(), ClassRun::new(&class(), &[], 0.0))]),
        engine: EngineRun {
            busy: Some(1.0),
            output_tokens_per_s: None,
        },
        timeline: TimelineRun::default(),
    };
    let json = serde_json::to_value(run).unwrap();
    let keys = |value: &serde_json::Value| {
        let keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.join(" ")
    };
    assert_eq!(keys(&json), "classes duration_s engine name policy seed");
    assert_eq!(keys(&json["engine"]), "busy output_tokens_per_s");
    let chat = &json["classes"]["chat"];
    assert_eq!(
        keys(chat),
        "cancelled completed failed failed_why latency_ms objectives offered output_tokens_per_s queue_ms refused refused_why slo_attained tpot_ms ttft_ms"
    );
    assert_eq!(keys(&chat["ttft_ms"]), "p50 p95 p99");
    assert!(chat["ttft_ms"]["p99"].is_null());
}
