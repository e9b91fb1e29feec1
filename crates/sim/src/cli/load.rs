//! `fairtide-sim load`.

use crate::load::{self, Run, SCHEMA, Scenario};
use anyhow::Context;
use clap::Args;
use http::Uri;
use serde::Serialize;
use std::{path::PathBuf, sync::Arc};

#[derive(Args, Debug)]
pub(super) struct Load {
    /// Where requests go, in turn: http://host:port, several with commas between them.
    #[arg(long, env = "FAIRTIDE_TARGET", value_name = "URL[,URL..]", required = true, value_delimiter = ',', value_parser = load::target)]
    target: Vec<Uri>,
    /// What to offer: demo, burst, or a YAML file (docs/load-scenarios.md).
    #[arg(long, env = "FAIRTIDE_SCENARIO", value_name = "FILE|NAME", value_parser = scenario)]
    scenario: Scenario,
    /// The same seed offers the same requests at the same times.
    #[arg(long, env = "FAIRTIDE_SEED", value_name = "N", default_value = "1")]
    seed: u64,
    /// Where the figures go as JSON.
    #[arg(long, env = "FAIRTIDE_JSON", value_name = "FILE")]
    json: Option<PathBuf>,
    /// What stands at the targets, for the report.
    #[arg(
        long,
        env = "FAIRTIDE_POLICY",
        value_name = "TEXT",
        default_value = "unnamed"
    )]
    policy: String,
}

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    #[serde(flatten)]
    run: &'a Run,
}

// === impl Load ===

impl Load {
    pub async fn run(self) -> anyhow::Result<()> {
        println!("{}: {}", self.scenario.name, self.scenario.about.trim());
        let load = load::Load::new(
            Arc::new(self.scenario),
            self.seed,
            self.target,
            &self.policy,
        );
        let offering = load.offer().await;
        print!("{}", load::table(&offering.run));
        for (reason, count) in &offering.failures {
            println!("{count} failed: {reason}");
        }
        if let Some(path) = self.json {
            let report = Report {
                schema: SCHEMA,
                run: &offering.run,
            };
            let json = serde_json::to_string_pretty(&report)?;
            std::fs::write(&path, json + "\n")
                .with_context(|| format!("can't write {}", path.display()))?;
        }
        Ok(())
    }
}

fn scenario(text: &str) -> Result<Scenario, String> {
    Scenario::load(text).map_err(|error| error.to_string())
}
