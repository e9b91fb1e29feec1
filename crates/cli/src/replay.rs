//! `kubectl-fairtide replay`: what the policies in a folder, and their rivals, would have made of
//! a trace. No cluster and no GPU is needed, and no time passes: see `docs/replay.md`.

mod gate;
mod head;
mod live;
mod objective;
mod policy;
mod profile;

use anyhow::Context;
use clap::Args;
use fairtide_sim::{
    load::{Run, SCHEMA, Scenario, Slo, table},
    replay::{Balancer, Contestant, Rules, Setup, Source, run},
    report::page,
};
use live::LiveArgs;
use objective::Objective;
use profile::NamedProfile;
use serde::Serialize;
use std::{io::Write, path::PathBuf};

#[derive(Args, Debug)]
pub struct Replay {
    /// Traces, with commas between them; they run beside each other. Azure LLM, BurstGPT, Mooncake or a recording.
    #[arg(long, env = "FAIRTIDE_TRACE", value_name = "FILE", value_delimiter = ',', num_args = 1.., required_unless_present = "scenario", conflicts_with = "scenario")]
    trace: Vec<PathBuf>,
    /// Instead of traces: demo, burst, or a YAML file (docs/load-scenarios.md).
    #[arg(long, env = "FAIRTIDE_SCENARIO", value_name = "FILE|NAME", value_parser = scenario)]
    scenario: Option<Scenario>,
    /// The folder, or file, with the pool and its classes.
    #[arg(long, env = "FAIRTIDE_MANIFESTS", value_name = "DIR")]
    manifests: PathBuf,
    /// Which pool of the manifests; not needed where there is only one.
    #[arg(long, env = "FAIRTIDE_POOL", value_name = "NAMESPACE/NAME")]
    pool: Option<String>,
    /// What to replay in virtual time, side by side; unset: fairtide and fifo, with --live none: fairtide, fifo, engine-priority, static:N, aimd, gradient2, vegas, envoy-gradient, strict-priority, input-drr, haproxy:N.
    #[arg(
        long,
        env = "FAIRTIDE_POLICIES",
        value_name = "NAME,..",
        value_delimiter = ','
    )]
    policies: Vec<Contestant>,
    /// A file that maps rows to classes and tenants.
    #[arg(long, env = "FAIRTIDE_RULES", value_name = "FILE", value_parser = rules)]
    rules: Option<Rules>,
    /// The objectives of a class, such as chat=ttft:1s,tpot:60ms; once for each class.
    #[arg(long, value_name = "CLASS=ttft:T,tpot:T")]
    slo: Vec<Objective>,
    /// The engines: llama-8b-h100, llama-70b-8xh100, llama-8b-l40s, mock-16, small, or a YAML file.
    #[arg(
        long,
        env = "FAIRTIDE_PROFILE",
        value_name = "NAME|FILE",
        default_value = "llama-8b-h100"
    )]
    profile: NamedProfile,
    /// How many requests an engine runs at once, in the place of the profile's number.
    #[arg(long, env = "FAIRTIDE_MAX_NUM_SEQS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_num_seqs: Option<u32>,
    /// How many engines, each with a policy of its own.
    #[arg(long, env = "FAIRTIDE_REPLICAS", value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    replicas: u16,
    /// How they share the requests: round-robin, least-connections, random-two.
    #[arg(
        long,
        env = "FAIRTIDE_BALANCER",
        value_name = "NAME",
        default_value = "round-robin"
    )]
    balancer: Balancer,
    /// Lets a trace run so many times as fast.
    #[arg(long, env = "FAIRTIDE_SPEED", value_name = "X", default_value = "1", value_parser = speed)]
    speed: f64,
    /// The same seed gives the same bytes.
    #[arg(long, env = "FAIRTIDE_SEED", value_name = "N", default_value = "1")]
    seed: u64,
    /// A report.json of before: fails if a class got worse by more than --tolerance.
    #[arg(long, env = "FAIRTIDE_AGAINST", value_name = "FILE")]
    against: Option<PathBuf>,
    /// How much worse is still good, in percent.
    #[arg(long, env = "FAIRTIDE_TOLERANCE", value_name = "PERCENT", default_value = "5", value_parser = clap::value_parser!(u16).range(0..=1000))]
    tolerance: u16,
    /// Where report.json and report.html go; made if it isn't there.
    #[arg(long, env = "FAIRTIDE_OUT", value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    live: LiveArgs,
}

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    runs: &'a [Run],
}

// === impl Replay ===

impl Replay {
    pub fn run(self) -> anyhow::Result<()> {
        // What fails must fail before hours of virtual time have passed.
        let before = self.against.as_deref().map(gate::read).transpose()?;
        let setup = self.setup()?;
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("can't make {}", self.out.display()))?;
        let live = self.live.prepare(&setup, self.source(&setup)?)?;
        let mut runs = Vec::new();
        for contestant in &self.policies() {
            let source = self.source(&setup)?;
            let (run, skipped) = run(&setup, *contestant, source)?;
            say(&format!("{contestant}\n{}\n", table(&run)));
            if runs.is_empty() {
                say_skipped(skipped);
            }
            runs.push(run);
        }
        let mut fault = None;
        if let Some(live) = live {
            let sent = live.send();
            if runs.is_empty() {
                say_skipped(sent.skipped);
            }
            fault = sent.fault;
            runs.push(sent.run);
        }
        let report = Report {
            schema: SCHEMA,
            runs: &runs,
        };
        let json = serde_json::to_string_pretty(&report)? + "\n";
        self.write("report.json", &json)?;
        let html = page(&head::of(&self, &setup, &runs), &runs);
        self.write("report.html", &html)?;
        if let Some(fault) = fault {
            anyhow::bail!(fault);
        }
        match before {
            Some(before) => before.judge(&runs, self.tolerance),
            None => Ok(()),
        }
    }

    fn policies(&self) -> Vec<Contestant> {
        match &self.policies[..] {
            [] if self.live.url().is_none() => vec![Contestant::Fairtide, Contestant::Fifo],
            named => named.to_vec(),
        }
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.out.join(name);
        std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))
    }

    fn setup(&self) -> anyhow::Result<Setup> {
        let settings = policy::settings(&self.manifests, self.pool.as_deref())?;
        let mut slos = vec![Slo::default(); settings.classes.len()];
        let place = |name: &str| settings.classes.iter().position(|c| *c.name == *name);
        for class in self.scenario.iter().flat_map(|scenario| &scenario.classes) {
            if let Some(at) = place(&class.name) {
                slos[at] = class.slo;
            }
        }
        for objective in &self.slo {
            let Some(at) = place(&objective.class) else {
                let names: Vec<&str> = settings.classes.iter().map(|c| &*c.name).collect();
                anyhow::bail!(
                    "--slo names the class {:?}, which the pool doesn't have; write one of {}",
                    objective.class,
                    names.join(", ")
                );
            };
            slos[at] = objective.slo;
        }
        let mut profile = self.profile.profile.clone();
        if let Some(seats) = self.max_num_seqs {
            profile.max_num_seqs = seats as usize;
        }
        profile.check()?;
        let name = match &self.scenario {
            Some(scenario) => scenario.name.clone(),
            None => {
                let names = self.trace.iter().filter_map(|path| path.file_name());
                let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
                names.join("+")
            }
        };
        Ok(Setup {
            name,
            settings,
            slos,
            profile,
            replicas: self.replicas.into(),
            balancer: self.balancer,
            seed: self.seed,
        })
    }

    fn source(&self, setup: &Setup) -> anyhow::Result<Source> {
        let settings = &setup.settings;
        Ok(match &self.scenario {
            Some(scenario) => Source::scenario(scenario, self.seed, settings)?,
            None => {
                let rules = self.rules.clone().unwrap_or_default();
                Source::traces(&self.trace, rules, self.speed, settings)?
            }
        })
    }
}

fn say_skipped(rows: u64) {
    if rows > 0 {
        say(&format!(
            "{rows} rows without prompt or answer are left out\n\n"
        ));
    }
}

/// A reader that has seen enough is no fault: the files are still to be written.
fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn scenario(text: &str) -> Result<Scenario, String> {
    Scenario::load(text).map_err(|error| error.to_string())
}

fn rules(text: &str) -> Result<Rules, String> {
    Rules::load(text.as_ref()).map_err(|error| error.to_string())
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().ok();
    let speed = speed.filter(|speed| (0.001..=1e6).contains(speed));
    speed.ok_or_else(|| "write a number from 0.001 to 1000000, such as 2".to_owned())
}
