//! `make bench-admission`: what the webhook adds to the creation of a pod, at a hundred pods a second.
//!
//! API server, storage and operator are the real programs on loopback. Pods that ask for a sidecar
//! and the same pods without the label are created in turns of some seconds, so that both meet
//! the same machine. A creation is timed from when it was due, also if it couldn't begin then.

use anyhow::{Context, ensure};
use fairtide_testkit::{Installation, eventually, figures, http_get};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use std::{fs, path::Path, process::ExitCode, time::Duration};
use tokio::{task::JoinSet, time::Instant};

const NAMESPACE: &str = "bench";
const PER_SECOND: u32 = 100;

/// Pods of one turn; what is created before is not counted.
const TURN: u32 = 800;
const WARM_UP: u32 = 100;

/// Turns with the webhook, and as many without.
const TURNS: usize = 4;

/// What the webhook may add to the 99th percentile.
const TARGET_ADDED_P99_MS: f64 = 10.0;

/// Spent only where something is broken.
const GIVE_UP: Duration = Duration::from_secs(60);

const POOL: &str = "
apiVersion: traffic.fairtide.dev/v1alpha1
kind: InferencePool
metadata: {name: llama, namespace: bench}
spec:
  selector: {matchLabels: {app: llama}}
  targetPorts: [{number: 8000}]
";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fairtide-bench-admission: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, and says whether the target was met.
async fn run() -> anyhow::Result<bool> {
    let fairtide = Installation::start_with_webhook().await?;
    fairtide.api.create_namespace(NAMESPACE).await?;
    fairtide.api.apply(POOL).await?;
    let client = fairtide.api.client().await?;
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    let sizes = sizes(&pods).await?;

    let total = TURN * TURNS as u32;
    println!("{total} pods with a sidecar and {total} without, {PER_SECOND} a second, in turns");
    let load = fs::read_to_string("/proc/loadavg")?;
    let load: f64 = load.split(' ').next().unwrap_or_default().parse()?;
    let (mut with, mut without, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        for (labelled, all) in [(false, &mut without), (true, &mut with)] {
            let (taken, failed) = turn(&pods, labelled).await?;
            all.extend(taken);
            failures.extend(failed);
        }
    }
    let ranks = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)];
    let (with, without) = (figures(with, &ranks), figures(without, &ranks));
    let added = |name: &str| {
        let [with, without] = [&with, &without].map(|all| all[name].as_f64().unwrap_or(f64::NAN));
        ((with - without) * 100.0).round() / 100.0
    };
    let added = json!({ "p50": added("p50"), "p95": added("p95"), "p99": added("p99") });
    let call = calls(&client).await?;
    let below = added["p99"]
        .as_f64()
        .is_some_and(|p99| p99 < TARGET_ADDED_P99_MS);
    let met = below && failures.is_empty();
    let text = |figures: &Value| {
        let of = |name: &str| format!("{name} {:>7} ms", figures[name].to_string());
        ["p50", "p95", "p99"].map(of).join("  ")
    };
    println!("  created with a sidecar     {}", text(&with));
    println!("  created without            {}", text(&without));
    println!("  added                      {}", text(&added));
    println!(
        "  the webhook's call, as the API server sees it: mean {} ms, {} % within 5 ms",
        call["mean_ms"], call["within_5_ms_percent"]
    );
    if let Some(first) = failures.first() {
        println!("  {} pods were not created: {first}", failures.len());
    }
    let report = json!({
        "schema": 1,
        "machine": { "cpus": std::thread::available_parallelism()?.get(), "load_before": load },
        "pods_per_s": PER_SECOND,
        "pods": total,
        "failures": failures.len(),
        "pod_bytes": sizes,
        "with_webhook_ms": with,
        "without_webhook_ms": without,
        "added_ms": added,
        "webhook_call": call,
        "answer_mean_ms": answers(&fairtide).await?,
        "target": { "added_p99_ms": TARGET_ADDED_P99_MS },
        "met": met,
    });
    let path = Path::new("target/bench/admission.json");
    fs::create_dir_all("target/bench")?;
    fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    let verdict = if met { "met" } else { "MISSED" };
    println!(
        "Target: under {TARGET_ADDED_P99_MS:.0} ms added at p99: {verdict}. Figures: {}",
        path.display()
    );
    Ok(met)
}

/// Creates the pods of one turn, each when it is due; milliseconds from then to the answer, and
/// why pods weren't created.
async fn turn(pods: &Api<Pod>, labelled: bool) -> anyhow::Result<(Vec<f64>, Vec<String>)> {
    let mut created = JoinSet::new();
    let begin = Instant::now();
    for at in 0..WARM_UP + TURN {
        let due = begin + Duration::from_secs(1) * at / PER_SECOND;
        tokio::time::sleep_until(due).await;
        let pods = pods.clone();
        created.spawn(async move {
            let pod = pods.create(&PostParams::default(), &pod(labelled)?).await?;
            let taken = due.elapsed().as_secs_f64() * 1e3;
            ensure!(is_injected(&pod) == labelled, "sidecar: not {labelled}");
            Ok((at, taken))
        });
    }
    let (mut taken, mut failures) = (Vec::new(), Vec::new());
    while let Some(one) = created.join_next().await {
        match one? {
            Ok((at, ms)) if at >= WARM_UP => taken.push(ms),
            Ok(_) => {}
            Err(error) => failures.push(error.to_string()),
        }
    }
    // Not a part of any turn's time.
    pods.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    eventually("the pods are gone", GIVE_UP, async || {
        let left = pods.list_metadata(&ListParams::default().limit(1)).await?;
        ensure!(left.items.is_empty());
        Ok(())
    })
    .await?;
    Ok((taken, failures))
}

/// A vLLM pod as a Deployment makes it.
fn pod(labelled: bool) -> anyhow::Result<Pod> {
    let mut labels = json!({"app": "llama", "pod-template-hash": "7d4b9c6f5d"});
    if labelled {
        labels["fairtide.dev/inject"] = json!("enabled");
    }
    let probe = |period: u32| json!({"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": period});
    let pod = json!({
        "metadata": {"generateName": "llama-7d4b9c6f5d-", "labels": labels},
        "spec": {
            "containers": [{
                "name": "vllm",
                "image": "vllm/vllm-openai:v0.11.0",
                "args": [
                    "--model", "meta-llama/Llama-3.1-8B-Instruct", "--port", "8000",
                    "--max-model-len", "16384", "--gpu-memory-utilization", "0.92",
                    "--enable-prefix-caching", "--max-num-seqs", "256",
                ],
                "env": [
                    {"name": "HF_HOME", "value": "/models"},
                    {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
                ],
                "ports": [{"name": "http", "containerPort": 8000}],
                "startupProbe": probe(10), "readinessProbe": probe(5), "livenessProbe": probe(10),
                "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}, "requests": {"cpu": "8"}},
                "volumeMounts": [{"name": "models", "mountPath": "/models"}, {"name": "shm", "mountPath": "/dev/shm"}],
            }],
            "volumes": [
                {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
            ],
        },
    });
    Ok(serde_json::from_value(pod)?)
}

fn is_injected(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.init_containers);
    containers
        .flatten()
        .any(|one| one.name == "fairtide-sidecar")
}

/// Bytes of a pod as JSON, before and after; waits until the API server asks the webhook.
async fn sizes(pods: &Api<Pod>) -> anyhow::Result<Value> {
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let bytes = |pod: &Pod| Ok::<_, anyhow::Error>(serde_json::to_vec(pod)?.len());
    let before = bytes(&pods.create(&dry, &pod(false)?).await?)?;
    let after = eventually("the API server asks the webhook", GIVE_UP, async || {
        let pod = pods.create(&dry, &pod(true)?).await?;
        ensure!(is_injected(&pod), "not injected");
        bytes(&pod)
    })
    .await?;
    Ok(json!({ "without": before, "with": after }))
}

/// What the API server says of its calls.
async fn calls(client: &Client) -> anyhow::Result<Value> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let page = client.request_text(request).await?;
    let name = "apiserver_admission_webhook_admission_duration_seconds";
    let of = |part: &str, more: &str| -> anyhow::Result<f64> {
        let lines = page.lines().filter(|line| {
            line.starts_with(&format!("{name}_{part}{{"))
                && line.contains("pod.inject.fairtide.dev")
                && line.contains(more)
        });
        let values = lines.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<f64>());
        let values: Result<Vec<f64>, _> = values.collect();
        let sum = values?.into_iter().sum();
        ensure!(sum > 0.0, "the API server shows no {name}_{part}");
        Ok(sum)
    };
    let count = of("count", "")?;
    let round = |value: f64| (value * 100.0).round() / 100.0;
    Ok(json!({
        "mean_ms": round(of("sum", "")? / count * 1e3),
        "within_5_ms_percent": round(of("bucket", r#"le="0.005""#)? / count * 1e2),
        "within_25_ms_percent": round(of("bucket", r#"le="0.025""#)? / count * 1e2),
    }))
}

/// The mean time in which the operator made up an answer, in milliseconds.
async fn answers(fairtide: &Installation) -> anyhow::Result<f64> {
    let (_, page) = http_get(fairtide.admin(), "/metrics").await?;
    let page = String::from_utf8(page.to_vec())?;
    let of = |name: &str| -> anyhow::Result<f64> {
        let line = page
            .lines()
            .find(|line| line.split(' ').next() == Some(name));
        let line = line.with_context(|| format!("the operator shows no {name}"))?;
        Ok(line.rsplit(' ').next().unwrap_or_default().parse()?)
    };
    let mean = of("fairtide_operator_admission_seconds_sum")?
        / of("fairtide_operator_admission_seconds_count")?;
    Ok((mean * 1e6).round() / 1e3)
}
