//! `report.json`. The field names are an interface.

use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tokio::time::Instant;

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    steps: Vec<Step>,
    #[serde(skip)]
    file: PathBuf,
}

/// One thing that was tried.
#[derive(Debug, Serialize)]
struct Step {
    id: &'static str,
    passed: bool,
    seconds: f64,
    /// What was seen; of a failed step, what was seen in the place of what was wanted.
    note: String,
}

// === impl Report ===

impl Report {
    pub fn new(out: &Path) -> Self {
        Self {
            steps: Vec::new(),
            file: out.join("report.json"),
        }
    }

    /// Tries something, and keeps what it says. Whether it passed.
    pub async fn step(
        &mut self,
        id: &'static str,
        tried: impl Future<Output = anyhow::Result<String>>,
    ) -> bool {
        let started = Instant::now();
        let result = tried.await;
        let seconds = (started.elapsed().as_secs_f64() * 100.0).round() / 100.0;
        let passed = result.is_ok();
        let note = result.unwrap_or_else(|error| format!("{error:#}"));
        let word = if passed { "ok    " } else { "FAILED" };
        println!("{word} {seconds:>6.2} s  {id}: {note}");
        self.steps.push(Step {
            id,
            passed,
            seconds,
            note,
        });
        // A run that is cut off leaves what it knew.
        if let Err(error) = self.save() {
            eprintln!("fairtide-e2e: {error:#}");
        }
        passed
    }

    fn save(&self) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(self)?;
        Ok(fs::write(&self.file, json + "\n")?)
    }

    /// Writes the file, and says whether all passed.
    pub fn write(&self) -> anyhow::Result<bool> {
        self.save()?;
        let failed = self.steps.iter().filter(|step| !step.passed).count();
        let of = self.steps.len();
        println!(
            "{} of {of} steps passed: {}",
            of - failed,
            self.file.display()
        );
        Ok(failed == 0)
    }
}
