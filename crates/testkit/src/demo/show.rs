//! The demo from start to report.

use crate::{
    FOLDER,
    args::Args,
    exhibit::Edit,
    fleet::Fleet,
    policy::PolicyFiles,
    report::{Effect, LoadReport, PolicyChange, Report, is_interactive, rounded},
    table,
};
use anyhow::{Context, ensure};
use fairtide_sim::load::{ClassLoad, Load, Offering, Run, Scenario, Timeline};
use serde_json::Value;
use std::{fs, path::PathBuf, sync::Arc, time::Duration};
use tokio::time::Instant;

const ENFORCE: &str = "mode: Enforce";
const BYPASS: &str = "mode: Bypass";

/// When the policy is edited, as a part of the run.
const EDIT_AT: f64 = 0.4;

/// The part of the time before the edit that is left out: what started first still runs.
const WARM_UP: f64 = 0.6;

struct Stage {
    scenario: Arc<Scenario>,
    seed: u64,
    fleet: Fleet,
    policy: PolicyFiles,
}

/// Runs the demo, prints what it shows, and writes the report.
pub async fn run(asked: &Args) -> anyhow::Result<Report> {
    let began = Instant::now();
    let exhibit = &asked.scenario;
    let scenario = Arc::new(exhibit.load(asked.short)?);
    let folder = fresh_folder()?;
    println!("{}", scenario.about.trim());
    println!(
        "Engines: {} of {} ({}). Clients don't retry. Seed {}.\n",
        exhibit.engines, exhibit.profile, exhibit.engine, asked.seed
    );

    let policy = PolicyFiles::write(folder.join("policy"), exhibit.files)?;
    let fleet = Fleet::start(exhibit, &folder, &policy).await?;
    step(began, "operator, engines and sidecars are ready");
    let mut stage = Stage {
        scenario: scenario.clone(),
        seed: asked.seed,
        fleet,
        policy,
    };

    stage.switch(ENFORCE, BYPASS, "Bypass").await?;
    step(
        began,
        "FIFO: the pool is in Bypass, the engines serve first come, first served",
    );
    let fifo = stage.offer("fifo").await?;
    stage.switch(BYPASS, ENFORCE, "Enforce").await?;
    step(
        began,
        "Fairtide: the same requests at the same times, under the policy",
    );
    let ours = stage.offer("fairtide").await?;
    let mut runs = vec![fifo, ours];
    let mut change = None;
    if let Some(edit) = &exhibit.edit {
        step(
            began,
            "the same once more, with an edit of the policy under way",
        );
        let (run, policy_change) = stage.offer_with_edit(edit).await?;
        runs.push(run);
        change = Some(policy_change);
    }
    drop(stage);

    let offered = runs[0].classes.iter();
    let load = LoadReport {
        scenario: scenario.name.clone(),
        about: scenario.about.trim().to_owned(),
        seed: asked.seed,
        duration_s: scenario.duration.as_secs_f64(),
        drain_s: scenario.drain.as_secs_f64(),
        engines: exhibit.engines,
        profile: exhibit.profile.to_owned(),
        offered: offered
            .map(|(name, class)| (name.clone(), class.offered))
            .collect(),
    };
    let report = Report::new(&scenario, load, runs, change);
    let path = folder.join("report.json");
    fs::write(&path, serde_json::to_string_pretty(&report)? + "\n")
        .with_context(|| format!("write {}", path.display()))?;
    println!("\n{}", table::render(&scenario, &report));
    println!(
        "{:.0} s in all. Figures: {}",
        began.elapsed().as_secs_f64(),
        path.display()
    );
    Ok(report)
}

/// Where reports, logs and policy files go, empty.
fn fresh_folder() -> anyhow::Result<PathBuf> {
    let folder = PathBuf::from(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    Ok(folder.canonicalize()?)
}

fn step(began: Instant, what: &str) {
    println!("{:5.1} s  {what}", began.elapsed().as_secs_f64());
}

// === impl Stage ===

impl Stage {
    /// Edits the pool's mode, and waits until the sidecars obey.
    async fn switch(&mut self, from: &str, to: &str, mode: &'static str) -> anyhow::Result<()> {
        let policy = &self.policy;
        let edit = || policy.edit("pool.yaml", from, to);
        self.fleet
            .push(edit, move |document| document["mode"] == mode)
            .await?;
        Ok(())
    }

    fn load(&self, policy: &str) -> anyhow::Result<Load> {
        let targets = self.fleet.targets()?;
        Ok(Load::new(self.scenario.clone(), self.seed, targets, policy))
    }

    async fn offer(&mut self, policy: &str) -> anyhow::Result<Run> {
        let offering = self.load(policy)?.offer().await;
        self.usable(offering)
    }

    /// A run says something only while all programs live and answer.
    fn usable(&mut self, offering: Offering) -> anyhow::Result<Run> {
        self.fleet.check()?;
        let failed: u64 = offering.failures.values().sum();
        let offered = offering.seen.len() as u64;
        for (reason, count) in offering.failures.iter().take(3) {
            println!("         {count} of {offered} requests failed: {reason}");
        }
        ensure!(
            failed * 10 < offered,
            "{failed} of {offered} requests failed in the run {:?}\n{}",
            offering.run.policy,
            self.fleet.last_lines()
        );
        Ok(offering.run)
    }

    async fn offer_with_edit(&mut self, edit: &Edit) -> anyhow::Result<(Run, PolicyChange)> {
        let mut scenario = (*self.scenario).clone();
        // What is unfinished at the end isn't looked at here.
        scenario.drain = Duration::ZERO;
        let duration = scenario.duration;
        let at = duration.mul_f64(EDIT_AT);
        let mut load = self.load("fairtide, policy edited")?;
        load.scenario = Arc::new(scenario);
        let timeline = load.timeline.clone();
        let start = Instant::now();
        let running = tokio::spawn(load.offer());

        tokio::time::sleep_until(start + at).await;
        let applied_at = start.elapsed();
        let line = |weight| format!("weight: {weight}");
        let policy = &self.policy;
        let write = || policy.edit(edit.file, &line(edit.from), &line(edit.to));
        let acked = self
            .fleet
            .push(write, |document| {
                weight_of(document, edit.class) == Some(edit.to)
            })
            .await?;
        let offering = running.await?;
        let run = self.usable(offering)?;

        let share = |from, to| self.batch_share(&timeline, edit.class, from, to);
        let effect = Effect {
            file: edit.file.to_owned(),
            class: edit.class.to_owned(),
            weight_before: edit.from,
            weight_after: edit.to,
            batch_token_share_before: share(applied_at.mul_f64(WARM_UP), applied_at),
            batch_token_share_after: share(applied_at + edit.settle, duration),
            batch_token_share_expected: self.expected_share(edit),
        };
        let change = PolicyChange {
            applied_at_s: rounded(applied_at.as_secs_f64()),
            acked_ms: rounded(acked.as_secs_f64() * 1e3),
            effect,
        };
        Ok((run, change))
    }

    /// The batch classes, with their places in the scenario.
    fn batch(&self) -> impl Iterator<Item = (usize, &ClassLoad)> {
        let classes = self.scenario.classes.iter().enumerate();
        classes.filter(move |(_, class)| !is_interactive(&self.scenario, &class.name))
    }

    /// A class's part of the tokens of all batch classes between two times.
    fn batch_share(&self, timeline: &Timeline, class: &str, from: Duration, to: Duration) -> f64 {
        let rate = |at| timeline.per_second(at, from, to);
        let all: f64 = self.batch().map(|(at, _)| rate(at)).sum();
        let own = self.batch().filter(|(_, batch)| batch.name == class);
        let own: f64 = own.map(|(at, _)| rate(at)).sum();
        if all > 0.0 { rounded(own / all) } else { 0.0 }
    }

    /// By the weights alone: the other batch classes keep the weight that this one had.
    fn expected_share(&self, edit: &Edit) -> f64 {
        let others = self.batch().count() as f64 - 1.0;
        let (from, to) = (f64::from(edit.from), f64::from(edit.to));
        to / (to + others * from)
    }
}

fn weight_of(document: &Value, class: &str) -> Option<u32> {
    let classes = document["classes"].as_array()?;
    let found = classes.iter().find(|found| found["name"] == class)?;
    u32::try_from(found["weight"].as_u64()?).ok()
}
