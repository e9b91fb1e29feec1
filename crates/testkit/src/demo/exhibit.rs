//! What can be shown: a load, the engines it is for, and the policy files.

use fairtide_sim::load::Scenario;
use std::time::Duration;

/// A load, the engines it is for, and the policy files.
#[derive(Clone, Copy, Debug)]
pub struct Exhibit {
    /// Of the load, and of the exhibit.
    pub scenario: &'static str,
    /// Of each engine.
    pub profile: &'static str,
    /// What the profile is, for readers.
    pub engine: &'static str,
    /// One sidecar before each.
    pub engines: usize,
    /// Name and text of each policy file.
    pub files: &'static [(&'static str, &'static str)],
    /// The edit at the end; none: no third phase.
    pub edit: Option<Edit>,
}

/// An edit of a policy file while load is on: a class gets another weight.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// The file.
    pub file: &'static str,
    /// The class in it.
    pub class: &'static str,
    /// Its weight before.
    pub from: u32,
    /// And after.
    pub to: u32,
    /// The effect is measured from so long after the edit: what runs then was started under it.
    pub settle: Duration,
}

macro_rules! files {
    ($folder:literal: $($name:literal),+) => {
        &[$(($name, include_str!(concat!("../../../../examples/", $folder, "/", $name)))),+]
    };
}

const ALL: [Exhibit; 2] = [
    Exhibit {
        scenario: "demo",
        profile: "llama-8b-l40s",
        engine: "simulated Llama-3.1-8B on an L40S, 32 seats",
        engines: 2,
        files: files!("demo": "pool.yaml", "chat.yaml", "summaries.yaml", "evals.yaml", "pods.yaml"),
        edit: Some(Edit {
            file: "evals.yaml",
            class: "evals",
            from: 1,
            to: 4,
            settle: Duration::from_secs(6),
        }),
    },
    Exhibit {
        scenario: "burst",
        profile: "mock-16",
        engine: "simulated, 16 seats, 10 ms + 1 ms per request a step",
        engines: 1,
        files: files!("demo-burst": "pool.yaml", "interactive.yaml", "batch.yaml", "pods.yaml"),
        edit: None,
    },
];

// === impl Exhibit ===

impl Exhibit {
    /// The exhibit of this name.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = ALL.iter().find(|exhibit| exhibit.scenario == name);
        found
            .copied()
            .ok_or_else(|| "write demo or burst".to_owned())
    }

    /// Its load; `short` cuts the window.
    pub fn load(&self, short: bool) -> anyhow::Result<Scenario> {
        let mut scenario = Scenario::load(self.scenario)?;
        if short {
            scenario.duration = scenario.duration * 7 / 10;
            scenario.drain = scenario.drain * 7 / 10;
        }
        Ok(scenario)
    }
}
