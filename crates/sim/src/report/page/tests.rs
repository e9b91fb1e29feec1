use super::*;
use crate::{
    load::{ClassRun, EngineRun, Objectives, Percentiles},
    report::{ClassTimeline, Curve, Curves, TimelineRun},
};
use std::collections::BTreeMap;

fn class(refused: &[(&str, &str, u64)]) -> ClassRun {
    let mut why: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (outcome, reason, number) in refused {
        let reasons = why.entry((*outcome).to_owned()).or_default();
        reasons.insert((*reason).to_owned(), *number);
    }
    let times = || Percentiles::of(vec![20.0, 40.0]);
    let curve = || Curve::new(vec![20.0, 40.0, 90.0], 4);
    ClassRun {
        offered: 100,
        completed: 75,
        refused: crate::load::by_outcome(&why),
        refused_why: why,
        cancelled: 0,
        failed: 0,
        failed_why: BTreeMap::new(),
        ttft_ms: times(),
        tpot_ms: times(),
        latency_ms: times(),
        queue_ms: times(),
        output_tokens_per_s: 30.0,
        slo_attained: Some(0.75),
        objectives: Objectives {
            ttft_ms: Some(1000.0),
            tpot_ms: None,
        },
        curves: Curves {
            ttft_ms: curve(),
            tpot_ms: curve(),
            latency_ms: curve(),
        },
    }
}

fn over_time(tokens: &[f64]) -> ClassTimeline {
    ClassTimeline {
        output_tokens_per_s: tokens.to_vec(),
        tpot_ms: tokens.iter().map(|t| (*t > 0.0).then_some(25.0)).collect(),
        in_flight: tokens.to_vec(),
        queued: tokens.to_vec(),
        refused: vec![0; tokens.len()],
    }
}

fn run(policy: &str) -> Run {
    let refused = [
        ("queue_full", "queue_requests", 20),
        ("shed", "pressure", 5),
    ];
    let mut batch = over_time(&[10.0, 0.0, 30.0]);
    batch.refused = vec![0, 20, 5];
    Run {
        name: "t".into(),
        policy: policy.into(),
        seed: 1,
        duration_s: 3.0,
        classes: BTreeMap::from([
            ("batch".into(), class(&refused)),
            ("chat".into(), class(&[])),
            (
                "idle".into(),
                ClassRun {
                    offered: 0,
                    ..class(&[])
                },
            ),
        ]),
        engine: EngineRun {
            busy: Some(0.5),
            output_tokens_per_s: Some(60.0),
        },
        timeline: TimelineRun {
            slot_s: 1.0,
            limit: vec![Some(16.0); 3],
            classes: BTreeMap::from([
                ("batch".into(), batch),
                ("chat".into(), over_time(&[30.0, 0.0, 10.0])),
                ("idle".into(), over_time(&[0.0; 3])),
            ]),
        },
    }
}

fn html() -> String {
    let head = Head {
        title: "Replay of <t>".into(),
        facts: vec![("Seed".into(), "1".into())],
    };
    page(&head, &[run("fairtide"), run("fifo")])
}

fn all<'a>(html: &'a str, before: &str) -> Vec<&'a str> {
    let pieces = html.split(before).skip(1);
    pieces
        .map(|piece| piece.split('"').next().unwrap())
        .collect()
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let html = html();
    for wanted in [
        "<script", "src=", "@import", "http:", "https:", "//", "url(h",
    ] {
        assert!(!html.contains(wanted), "{wanted}");
    }
    assert_eq!(
        all(&html, " href=\"").len(),
        all(&html, "href=\"#").len() + 1
    );
    assert!(html.contains("href=\"data:,\""), "no request for an icon");
    assert!(html.contains("<title>Replay of &lt;t&gt; · Fairtide</title>"));
    assert_eq!(html, super::tests::html(), "the same runs, the same bytes");
}

#[test]
fn whatever_is_referred_to_is_there_once() {
    let html = html();
    let mut ids = all(&html, " id=\"");
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count, "an id is used twice");
    let named = all(&html, "aria-labelledby=\"");
    let named = named.into_iter().flat_map(str::split_whitespace);
    for id in named.chain(all(&html, "href=\"#")) {
        assert!(ids.contains(&id), "nothing has the id {id}");
    }
    let fills = html.split("url(#").skip(1);
    for fill in fills.map(|piece| piece.split(')').next().unwrap()) {
        assert!(ids.contains(&fill), "there is no {fill}");
    }
}

#[test]
fn each_plot_says_in_words_what_it_shows_and_has_a_table() {
    let html = html();
    let plots = html.matches("<svg class=\"plot\"").count();
    // Two classes with three kinds of times; five things over time, for two policies.
    assert_eq!(plots, 2 * 3 + 5 * 2);
    assert_eq!(html.matches("<desc").count(), plots);
    assert_eq!(html.matches("<details>").count(), plots);
    assert!(html.contains("fairtide: half within 40 ms, 99 % within – and fifo: half"));
    assert!(html.contains("batch has 50 % on average and chat has 50 % on average."));
    assert!(html.contains("batch: from 25 ms to 25 ms, 25 ms on average"));
}

#[test]
fn refusals_are_listed_by_outcome_and_rule() {
    let html = html();
    let row = "<th scope=\"row\">batch</th><th scope=\"row\">fifo</th><th scope=\"row\">queue_full</th><th scope=\"row\">queue_requests</th><td>20</td><td>20 %</td>";
    assert!(html.contains(row));
    assert!(html.contains("<th scope=\"row\">shed</th>"));
    assert!(!html.contains("idle"), "a class without requests");

    let mut quiet = run("fifo");
    quiet.classes.remove("batch");
    let html = page(
        &Head {
            title: "t".into(),
            facts: Vec::new(),
        },
        &[quiet],
    );
    assert!(html.contains("Nothing: every request was answered in full."));
}

#[test]
fn a_run_of_nothing_is_a_page_too() {
    let head = Head {
        title: "t".into(),
        facts: Vec::new(),
    };
    let mut empty = run("fifo");
    empty.classes.clear();
    empty.timeline = TimelineRun::default();
    let html = page(&head, &[empty]);
    assert!(html.ends_with("</html>\n"));
    assert!(!html.contains("NaN") && !html.contains("inf"));
}
