//! `target/demo/report.json`. The field names are an interface; units are in the names.

use fairtide_sim::load::{ClassRun, Run, SCHEMA, Scenario};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the demo must show.
const MAX_TTFT_RATIO: f64 = 0.2;
const MIN_GOODPUT: f64 = 0.95;
const MIN_BATCH_RATIO: f64 = 0.85;
const MAX_ACK_MS: f64 = 1000.0;

/// The whole demo.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Grows when a field changes its meaning or goes away.
    pub schema: u32,
    /// What was offered.
    pub load: LoadReport,
    /// FIFO, Fairtide and, where a policy was edited, the load during which it was.
    pub runs: Vec<Run>,
    /// The edit.
    pub policy_change: Option<PolicyChange>,
    /// Ours over FIFO's.
    pub summary: Summary,
    /// Targets that were missed, in words. For the terminal.
    #[serde(skip)]
    pub missed: Vec<String>,
}

/// What was offered.
#[derive(Debug, Serialize)]
pub struct LoadReport {
    pub scenario: String,
    pub about: String,
    pub seed: u64,
    pub duration_s: f64,
    pub drain_s: f64,
    pub engines: usize,
    pub profile: String,
    pub offered: BTreeMap<String, u64>,
}

/// An edit of a policy file while load was on.
#[derive(Debug, Serialize)]
pub struct PolicyChange {
    /// Since the start of its run.
    pub applied_at_s: f64,
    /// From the edit of the file to the last sidecar's ACK.
    pub acked_ms: f64,
    pub effect: Effect,
}

/// What a changed weight did: the class's part of the tokens of all batch classes.
#[derive(Debug, Serialize)]
pub struct Effect {
    pub file: String,
    pub class: String,
    pub weight_before: u32,
    pub weight_after: u32,
    pub batch_token_share_before: f64,
    pub batch_token_share_after: f64,
    /// By the weights alone.
    pub batch_token_share_expected: f64,
}

/// Ours over FIFO's.
#[derive(Debug, Serialize)]
pub struct Summary {
    pub interactive_ttft_p99_ratio: Option<f64>,
    pub batch_throughput_ratio: Option<f64>,
}

/// Classes with objectives are those for which somebody waits; the others are batch.
pub fn is_interactive(scenario: &Scenario, class: &str) -> bool {
    let mut classes = scenario.classes.iter();
    classes.any(|c| c.name == class && (c.slo.ttft.is_some() || c.slo.tpot.is_some()))
}

/// Tokens per second of all batch classes.
pub fn batch_tokens_per_s(scenario: &Scenario, run: &Run) -> f64 {
    let batch = run
        .classes
        .iter()
        .filter(|(name, _)| !is_interactive(scenario, name));
    batch.map(|(_, class)| class.output_tokens_per_s).sum()
}

/// The interactive class of a run. Each scenario has one.
pub fn interactive<'a>(scenario: &Scenario, run: &'a Run) -> Option<(&'a str, &'a ClassRun)> {
    let mut classes = run.classes.iter();
    let found = classes.find(|(name, _)| is_interactive(scenario, name));
    found.map(|(name, class)| (name.as_str(), class))
}

/// To a ten-thousandth: more would only pretend.
pub fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

// === impl Summary ===

impl Summary {
    /// Compares two runs of a scenario.
    pub fn of(scenario: &Scenario, fifo: &Run, ours: &Run) -> Self {
        let p99 = |run| interactive(scenario, run)?.1.ttft_ms.p99;
        let ratio = |ours: f64, fifo: f64| (fifo > 0.0).then(|| rounded(ours / fifo));
        Self {
            interactive_ttft_p99_ratio: p99(ours)
                .zip(p99(fifo))
                .and_then(|(ours, fifo)| ratio(ours, fifo)),
            batch_throughput_ratio: ratio(
                batch_tokens_per_s(scenario, ours),
                batch_tokens_per_s(scenario, fifo),
            ),
        }
    }
}

// === impl Report ===

impl Report {
    /// Puts it together, and sees which targets were missed.
    pub fn new(
        scenario: &Scenario,
        load: LoadReport,
        runs: Vec<Run>,
        policy_change: Option<PolicyChange>,
    ) -> Self {
        let summary = Summary::of(scenario, &runs[0], &runs[1]);
        let mut missed = Vec::new();
        let mut want = |met: bool, what: String| {
            if !met {
                missed.push(what);
            }
        };
        let ratio = summary.interactive_ttft_p99_ratio;
        want(
            ratio.is_some_and(|ratio| ratio <= MAX_TTFT_RATIO),
            format!("interactive TTFT p99 at most {MAX_TTFT_RATIO} of FIFO's: {ratio:?}"),
        );
        let goodput = interactive(scenario, &runs[1]).and_then(|(_, class)| class.slo_attained);
        want(
            goodput.is_some_and(|goodput| goodput >= MIN_GOODPUT),
            format!("interactive goodput at least {MIN_GOODPUT}: {goodput:?}"),
        );
        let ratio = summary.batch_throughput_ratio;
        want(
            ratio.is_some_and(|ratio| ratio >= MIN_BATCH_RATIO),
            format!("batch throughput at least {MIN_BATCH_RATIO} of FIFO's: {ratio:?}"),
        );
        if let Some(change) = &policy_change {
            let acked = change.acked_ms;
            want(
                acked <= MAX_ACK_MS,
                format!("the policy edit acknowledged within {MAX_ACK_MS} ms: {acked}"),
            );
            let effect = &change.effect;
            let moved = effect.batch_token_share_after - effect.batch_token_share_before;
            let wanted = effect.batch_token_share_expected - effect.batch_token_share_before;
            want(
                moved >= wanted / 2.0,
                format!("the policy edit to move half of the way and more: {effect:?}"),
            );
        }
        Self {
            schema: SCHEMA,
            load,
            runs,
            policy_change,
            summary,
            missed,
        }
    }
}
