//! The gate for policies in Git: a run is held against the report of one before it. More than the
//! tolerance worse in any figure of any class fails; better is never wrong.

use anyhow::{Context, bail};
use fairtide_sim::load::{Run, SCHEMA};
use serde_json::Value;
use std::path::Path;

/// A figure that is compared.
struct Figure {
    /// As a JSON pointer into a class.
    at: &'static str,
    more_is_better: bool,
    /// A smaller difference than this is none, however small the figure: it is what the report
    /// rounds to, or what nobody feels.
    grain: f64,
}

const FIGURES: [Figure; 4] = [
    Figure {
        at: "/slo_attained",
        more_is_better: true,
        grain: 0.001,
    },
    Figure {
        at: "/output_tokens_per_s",
        more_is_better: true,
        grain: 0.001,
    },
    Figure {
        at: "/ttft_ms/p99",
        more_is_better: false,
        grain: 1.0,
    },
    Figure {
        at: "/tpot_ms/p99",
        more_is_better: false,
        grain: 0.1,
    },
];

/// A report of before.
#[derive(Debug)]
pub struct Before {
    runs: Vec<Value>,
}

/// Reads a report of before.
pub fn read(path: &Path) -> anyhow::Result<Before> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {name}"))?;
    let wrong = || format!("{name} is no report; give the report.json of an earlier replay");
    let mut report: Value = serde_json::from_str(&text).with_context(wrong)?;
    if let Some(schema) = report["schema"]
        .as_u64()
        .filter(|at| *at != u64::from(SCHEMA))
    {
        bail!("{name} has schema {schema}, and this program writes {SCHEMA}; make it anew");
    }
    match report.get_mut("runs").map(Value::take) {
        Some(Value::Array(runs)) if !runs.is_empty() => Ok(Before { runs }),
        _ => bail!(wrong()),
    }
}

// === impl Before ===

impl Before {
    /// Fails with what got worse, or if there is nothing to compare: another load, other policies.
    pub fn judge(&self, runs: &[Run], tolerance_percent: u16) -> anyhow::Result<()> {
        let tolerance = f64::from(tolerance_percent) / 100.0;
        let mut worse = Vec::new();
        let mut compared = 0;
        for run in runs {
            let before = self.runs.iter().find(|old| old["policy"] == *run.policy);
            let Some(before) = before else { continue };
            let now = serde_json::to_value(run)?;
            let Some(classes) = before["classes"].as_object() else {
                continue;
            };
            for (class, old) in classes {
                let Some(new) = now["classes"].get(class) else {
                    bail!("{}, class {class}: is no longer there", run.policy);
                };
                let (was, is) = (&old["offered"], &new["offered"]);
                if was != is {
                    bail!(
                        "--against is the report of another load: {}, class {class} had {was} requests, and has {is}; replay the same trace, rules and seed",
                        run.policy
                    );
                }
                for figure in &FIGURES {
                    let figures = (old.pointer(figure.at), new.pointer(figure.at));
                    let (Some(was), Some(is)) = figures else {
                        continue;
                    };
                    let (Some(was), Some(is)) = (was.as_f64(), is.as_f64()) else {
                        continue;
                    };
                    compared += 1;
                    if figure.is_worse(was, is, tolerance) {
                        let name = figure.at.trim_start_matches('/').replace('/', ".");
                        worse.push(format!(
                            "{}, class {class}: {name} was {was} and is {is}",
                            run.policy
                        ));
                    }
                }
            }
        }
        if compared == 0 {
            bail!("--against has no figures of these policies; replay the same policies as before");
        }
        match worse.is_empty() {
            true => Ok(()),
            false => bail!(
                "worse than before by more than {tolerance_percent} %: {}",
                worse.join("; ")
            ),
        }
    }
}

// === impl Figure ===

impl Figure {
    fn is_worse(&self, was: f64, is: f64, tolerance: f64) -> bool {
        let loss = if self.more_is_better {
            was - is
        } else {
            is - was
        };
        loss > (was * tolerance).max(self.grain)
    }
}
