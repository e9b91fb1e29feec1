//! `make bench-policy`: how long an edit of a policy takes, from the call to the API server to the
//! moment when the operator has the acknowledgement of every sidecar.
//!
//! API server, operator and sidecars are the real programs on loopback. Each edit is a server-side
//! apply of a class with another weight, and begins when the edit before is through.

use anyhow::{Context, bail, ensure};
use fairtide_testkit::{Installation, ScriptedEngine, SidecarAsked, eventually, figures};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use std::{fs, path::Path, process::ExitCode, time::Duration};
use tokio::time::Instant;

const NAMESPACE: &str = "bench";
const SIDECARS: usize = 3;
const EDITS: usize = 500;

const RANKS: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

/// What the 99th percentile must not pass.
const TARGET_P99_MS: f64 = 1_000.0;

/// An edit that takes this long is a failure, not a figure.
const GIVE_UP: Duration = Duration::from_secs(60);

/// How often the operator is asked: well below what is measured.
const GLANCE: Duration = Duration::from_millis(1);

const POOL: &str = "
apiVersion: traffic.fairtide.dev/v1alpha1
kind: InferencePool
metadata: {name: llama, namespace: bench}
spec:
  selector: {matchLabels: {app: llama}}
  targetPorts: [{number: 8000}]
";

/// One edit, in milliseconds.
struct Sample {
    /// Until the API server answered.
    applied: f64,
    /// Until every sidecar had acknowledged.
    acked: f64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fairtide-bench-policy: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, and says whether the target was met.
async fn run() -> anyhow::Result<bool> {
    let fairtide = Installation::start().await?;
    fairtide.api.create_namespace(NAMESPACE).await?;
    fairtide.api.apply(POOL).await?;
    let engine = ScriptedEngine::start().await?;
    let mut sidecars = Vec::new();
    for at in 0..SIDECARS {
        let name = format!("llama-{at}");
        let asked = SidecarAsked {
            namespace: NAMESPACE,
            name: &name,
            labels: &[("app", "llama")],
            engine: engine.address(),
        };
        sidecars.push(fairtide.start_sidecar(asked).await?);
    }
    let classes = Classes::of(fairtide.api.client().await?);
    // The first makes the class, and shows that all three are connected.
    let first = classes.apply(EDITS).await?;
    eventually("all sidecars obey", GIVE_UP, async || {
        ensure!(acked(&fairtide, first).await?, "not all have acknowledged");
        Ok(())
    })
    .await?;

    println!("{EDITS} edits, {SIDECARS} sidecars, one edit after the other");
    let mut samples = Vec::new();
    for weight in 0..EDITS {
        samples.push(edit(&fairtide, &classes, weight).await?);
    }
    let [apply, ack] = [
        figures(
            samples.iter().map(|sample| sample.applied).collect(),
            &RANKS,
        ),
        figures(samples.iter().map(|sample| sample.acked).collect(), &RANKS),
    ];
    println!("  answered by the API server after  {}", text(&apply));
    println!("  acknowledged by all after         {}", text(&ack));
    let p99 = ack["p99"].as_f64().context("figures have a p99")?;
    let met = p99 <= TARGET_P99_MS;
    let report = json!({
        "schema": 1,
        "sidecars": SIDECARS,
        "edits": EDITS,
        "api_answer_ms": apply,
        "acked_ms": ack,
        "target": { "acked_p99_ms": TARGET_P99_MS },
        "met": met,
    });
    let path = Path::new("target/bench/policy.json");
    fs::create_dir_all("target/bench")?;
    fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    let verdict = if met { "met" } else { "MISSED" };
    println!(
        "Target p99 at most {TARGET_P99_MS:.0} ms: {verdict}. Figures: {}",
        path.display()
    );
    Ok(met)
}

async fn edit(fairtide: &Installation, classes: &Classes, weight: usize) -> anyhow::Result<Sample> {
    let begin = Instant::now();
    let ms = || begin.elapsed().as_secs_f64() * 1e3;
    let generation = classes.apply(weight).await?;
    let applied = ms();
    while !acked(fairtide, generation).await? {
        if begin.elapsed() > GIVE_UP {
            bail!(
                "edit {weight}: not acknowledged after {GIVE_UP:?}\n{}",
                fairtide.operator_log()
            );
        }
        tokio::time::sleep(GLANCE).await;
    }
    Ok(Sample {
        applied,
        acked: ms(),
    })
}

/// Whether the operator has every sidecar's ACK for this generation of the class: a policy's version
/// names it.
async fn acked(fairtide: &Installation, generation: i64) -> anyhow::Result<bool> {
    let named = format!("c{generation}");
    let pods = fairtide.pods().await?;
    let pods = pods.as_array().context("a list of pods")?;
    let done = |pod: &Value| {
        let version = pod["acked"].as_str().unwrap_or_default();
        version.split('-').any(|part| part == named)
    };
    Ok(pods.len() == SIDECARS && pods.iter().all(done))
}

fn text(figures: &Value) -> String {
    let of = |name: &str| format!("{name} {:>6} ms", figures[name]);
    ["p50", "p99", "max"].map(of).join("  ")
}

/// The class that is edited.
struct Classes(Api<DynamicObject>);

// === impl Classes ===

impl Classes {
    fn of(client: Client) -> Self {
        let kind = GroupVersionKind::gvk("traffic.fairtide.dev", "v1alpha1", "TrafficClass");
        let resource = ApiResource::from_gvk_with_plural(&kind, "trafficclasses");
        Self(Api::namespaced_with(client, NAMESPACE, &resource))
    }

    /// Applies it with another weight, and gives its generation.
    async fn apply(&self, weight: usize) -> anyhow::Result<i64> {
        let class = json!({
            "apiVersion": "traffic.fairtide.dev/v1alpha1",
            "kind": "TrafficClass",
            "metadata": { "name": "batch" },
            "spec": {
                "poolRefs": [{ "name": "llama" }],
                "tier": "Batch",
                "weight": weight + 1,
                "match": [{ "path": { "value": "/v1/completions" } }],
            },
        });
        let params = PatchParams::apply("fairtide-bench").force();
        let applied = self
            .0
            .patch("batch", &params, &Patch::Apply(&class))
            .await?;
        applied
            .metadata
            .generation
            .context("each object has a generation")
    }
}
