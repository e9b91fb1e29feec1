//! A run as a table for a terminal.

use super::report::{ClassRun, Run};
use std::fmt::Write;

const HEAD: [&str; 11] = [
    "class",
    "offered",
    "completed",
    "refused",
    "cancelled",
    "failed",
    "TTFT p50/p99",
    "TPOT p50/p99",
    "queue p99",
    "tok/s",
    "SLO",
];

/// One line per class.
pub fn table(run: &Run) -> String {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(run.classes.iter().map(|(name, class)| row(name, class)));
    let mut text = String::new();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|at| rows.iter().map(|row| row[at].chars().count()).max())
        .map(Option::unwrap_or_default)
        .collect();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(at, (cell, width))| match at {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  "));
    }
    let percent = |share: Option<f64>| share.map_or("-".into(), |s| format!("{:.0} %", s * 100.0));
    let rate = run.engine.output_tokens_per_s;
    let _ = writeln!(
        text,
        "engines: busy {}, {} tok/s by their own count",
        percent(run.engine.busy),
        rate.map_or("-".to_owned(), |rate| format!("{rate:.0}")),
    );
    text
}

fn row(name: &str, class: &ClassRun) -> Vec<String> {
    let pair = |low, high| format!("{} / {}", time(low), time(high));
    vec![
        name.to_owned(),
        class.offered.to_string(),
        class.completed.to_string(),
        class.refused.values().sum::<u64>().to_string(),
        class.cancelled.to_string(),
        class.failed.to_string(),
        pair(class.ttft_ms.p50, class.ttft_ms.p99),
        pair(class.tpot_ms.p50, class.tpot_ms.p99),
        time(class.queue_ms.p99),
        format!("{:.0}", class.output_tokens_per_s),
        class
            .slo_attained
            .map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
    ]
}

/// Milliseconds in the unit that reads best.
fn time(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 1000.0 => format!("{ms:.0} ms"),
        Some(ms) => format!("{:.1} s", ms / 1e3),
    }
}
