//! The gate for policies in Git: a run is held against the report of one before it. More than the
//! tolerance worse in any figure of any class fails; better is never wrong.

use anyhow::{Context, bail};
use fairtide_sim::load::Run;
use serde_json::Value;
use std::path::Path;

/// The figures that are compared, as JSON pointers into a class, and whether more is better.
const FIGURES: [(&str, bool); 4] = [
    ("/slo_attained", true),
    ("/output_tokens_per_s", true),
    ("/ttft_ms/p99", false),
    ("/tpot_ms/p99", false),
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
    match report.get_mut("runs").map(Value::take) {
        Some(Value::Array(runs)) if !runs.is_empty() => Ok(Before { runs }),
        _ => bail!(wrong()),
    }
}

// === impl Before ===

impl Before {
    /// Fails with what got worse, or if there is nothing to compare.
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
                for (figure, more_is_better) in FIGURES {
                    let figures = (old.pointer(figure), new.pointer(figure));
                    let (Some(old), Some(new)) = figures else {
                        continue;
                    };
                    let (Some(old), Some(new)) = (old.as_f64(), new.as_f64()) else {
                        continue;
                    };
                    compared += 1;
                    let bad = match more_is_better {
                        true => new < old * (1.0 - tolerance),
                        false => new > old * (1.0 + tolerance),
                    };
                    if bad {
                        let figure = figure.trim_start_matches('/').replace('/', ".");
                        worse.push(format!(
                            "{}, class {class}: {figure} was {old} and is {new}",
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
