//! What the page says above the figures.

use super::Replay;
use fairtide_sim::{
    load::Run,
    replay::{Balancer, Setup, live::POLICY},
    report::Head,
};

/// Of these runs. The same arguments give the same words.
pub fn of(replay: &Replay, setup: &Setup, runs: &[Run]) -> Head {
    let engine = format!(
        "{}, {} seats, KV cache of {} tokens",
        replay.profile.name, setup.profile.max_num_seqs, setup.profile.kv_tokens
    );
    let how_many = match (setup.replicas, setup.balancer) {
        (1, _) => "1".to_owned(),
        (n, Balancer::RoundRobin) => format!("{n}, round robin"),
        (n, Balancer::LeastConnections) => format!("{n}, least connections"),
        (n, Balancer::RandomTwo) => format!("{n}, the better of two by chance"),
    };
    let first = runs.first();
    let offered = first.map_or(0, |run| run.classes.values().map(|c| c.offered).sum());
    let window = first.map_or(0.0, |run| run.duration_s);
    let mut facts = vec![("Requests", format!("{offered} in {window} s"))];
    if let Some(endpoint) = replay.live.describe() {
        facts.push(("Live", endpoint));
    }
    if runs.iter().any(|run| run.policy != POLICY) {
        facts.push(("Engine", engine));
        facts.push(("Engines", how_many));
        facts.push(("Seed", setup.seed.to_string()));
    }
    if replay.speed != 1.0 {
        facts.push(("Trace sped up", format!("{} times", replay.speed)));
    }
    let facts = facts.into_iter();
    Head {
        title: format!("Replay of {}", setup.name),
        facts: facts
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}
