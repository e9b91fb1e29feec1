//! What a person sees at the end.

use crate::report::{Report, batch_tokens_per_s, interactive, is_interactive};
use fairtide_sim::load::{ClassRun, Run, Scenario};
use std::fmt::Write;

/// FIFO and Fairtide side by side, and what the edit did.
pub fn render(scenario: &Scenario, report: &Report) -> String {
    let (fifo, ours) = (&report.runs[0], &report.runs[1]);
    let mut rows: Vec<[String; 4]> = vec![[
        String::new(),
        "FIFO".to_owned(),
        "Fairtide".to_owned(),
        String::new(),
    ]];
    if let (Some((name, before)), Some((_, after))) =
        (interactive(scenario, fifo), interactive(scenario, ours))
    {
        rows.extend(interactive_rows(scenario, name, before, after));
    }
    rows.extend(batch_rows(
        scenario,
        fifo,
        ours,
        report.summary.batch_throughput_ratio,
    ));
    let mut text = lines(&rows);
    if let Some(change) = &report.policy_change {
        let effect = &change.effect;
        let _ = write!(
            text,
            "\n{} edited under load, {:.1} s in: weight {} -> {} of class {}\n  acknowledged by every sidecar after {:.0} ms; its part of the batch tokens went from {:.0} % to {:.0} % (by weight: {:.0} %)\n",
            effect.file,
            change.applied_at_s,
            effect.weight_before,
            effect.weight_after,
            effect.class,
            change.acked_ms,
            effect.batch_token_share_before * 100.0,
            effect.batch_token_share_after * 100.0,
            effect.batch_token_share_expected * 100.0,
        );
    }
    if report.missed.is_empty() {
        text.push_str("\nEvery target met.\n");
    }
    for missed in &report.missed {
        let _ = writeln!(text, "\nMISSED: {missed}");
    }
    text
}

fn interactive_rows(
    scenario: &Scenario,
    name: &str,
    fifo: &ClassRun,
    ours: &ClassRun,
) -> Vec<[String; 4]> {
    let times = |fifo: Option<f64>, ours: Option<f64>| match (fifo, ours) {
        (Some(fifo), Some(ours)) if ours > 0.0 && fifo > ours => {
            format!("{:.0} times faster", fifo / ours)
        }
        _ => String::new(),
    };
    let slo = scenario.classes.iter().find(|class| class.name == name);
    let slo = slo.map(|class| class.slo).unwrap_or_default();
    let bounds = [
        ("first token in", slo.ttft),
        ("then a token every", slo.tpot),
    ];
    let bounds = bounds.into_iter().filter_map(|(what, bound)| {
        Some(format!(
            "{what} {}",
            ms(Some(bound?.as_secs_f64() * 1e3), false)
        ))
    });
    // A percentile among requests that never got a token is an age: the least it can be.
    let cut = fifo.cancelled > 0;
    let row = |what: &str, fifo, ours| [format!("{name}: {what}"), fifo, ours, String::new()];
    let mut rows = vec![
        row(
            "first token, half of requests within",
            ms(fifo.ttft_ms.p50, cut),
            ms(ours.ttft_ms.p50, false),
        ),
        row(
            "first token, 99 % within",
            ms(fifo.ttft_ms.p99, cut),
            ms(ours.ttft_ms.p99, ours.cancelled > 0),
        ),
        row(
            "time per token, 99 % within",
            ms(fifo.tpot_ms.p99, false),
            ms(ours.tpot_ms.p99, false),
        ),
        row(
            "served well",
            percent(fifo.slo_attained),
            percent(ours.slo_attained),
        ),
        row("refused or failed", lost(fifo), lost(ours)),
    ];
    rows[0][3] = times(fifo.ttft_ms.p50, ours.ttft_ms.p50);
    rows[1][3] = times(fifo.ttft_ms.p99, ours.ttft_ms.p99);
    rows[3][3] = format!("({})", bounds.collect::<Vec<_>>().join(", "));
    rows
}

fn batch_rows(scenario: &Scenario, fifo: &Run, ours: &Run, ratio: Option<f64>) -> Vec<[String; 4]> {
    let names = fifo.classes.keys();
    let names: Vec<&str> = names
        .map(String::as_str)
        .filter(|name| !is_interactive(scenario, name))
        .collect();
    let sum = |run: &Run| {
        let batch = names.iter().filter_map(|name| run.classes.get(*name));
        let (mut refused, mut failed) = (0, 0);
        for class in batch {
            refused += class.refused.values().sum::<u64>();
            failed += class.failed;
        }
        (refused + failed).to_string()
    };
    let rate = |run: &Run| format!("{:.0}", batch_tokens_per_s(scenario, run));
    let name = names.join(" + ");
    vec![
        [
            format!("{name}: tokens per second"),
            rate(fifo),
            rate(ours),
            ratio.map_or(String::new(), |ratio| {
                format!("{:.0} % kept", ratio * 100.0)
            }),
        ],
        [
            format!("{name}: refused or failed"),
            sum(fifo),
            sum(ours),
            String::new(),
        ],
    ]
}

fn lost(class: &ClassRun) -> String {
    (class.refused.values().sum::<u64>() + class.failed).to_string()
}

fn lines(rows: &[[String; 4]]) -> String {
    let width = |at: usize| {
        let widths = rows.iter().map(|row| row[at].chars().count());
        widths.max().unwrap_or_default()
    };
    let (first, second, third) = (width(0), width(1), width(2));
    let mut text = String::new();
    for [what, fifo, ours, note] in rows {
        let line = format!("  {what:<first$}  {fifo:>second$}  {ours:>third$}  {note}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn ms(value: Option<f64>, at_least: bool) -> String {
    let Some(value) = value else {
        return "-".to_owned();
    };
    let least = if at_least { "≥ " } else { "" };
    if value < 999.5 {
        format!("{least}{value:.0} ms")
    } else {
        format!("{least}{:.1} s", value / 1e3)
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0))
}
