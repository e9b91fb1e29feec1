//! How long a decision about a pod takes: a usual pod, and one of a megabyte.

use criterion::{Criterion, criterion_group, criterion_main};
use fairtide_inject::{Context, Operator, inject};
use serde_json::{Value, json};
use std::hint::black_box;

fn context() -> Context {
    Context {
        namespace: Default::default(),
        pool: None,
        operator: Operator {
            sidecar_image: "sidecar".to_owned(),
            channel_url: "https://operator".to_owned(),
            channel_ca_pem: "x".repeat(1200),
            token_audience: "fairtide.dev".to_owned(),
            kubernetes: None,
        },
    }
}

/// `extra` bytes lie half in the field managers' bookkeeping, half in variables.
fn pod(extra: usize) -> Value {
    let managers: Vec<Value> = (0..extra / 2 / 100)
        .map(|number| json!({"manager": format!("m{number}"), "fieldsV1": {"f:spec": "x".repeat(60)}}))
        .collect();
    let env: Vec<Value> = (0..extra / 2 / 100)
        .map(|number| json!({"name": format!("V{number}"), "value": "x".repeat(70)}))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "labels": {"fairtide.dev/inject": "enabled"},
            "managedFields": managers,
        },
        "spec": {"containers": [{
            "name": "vllm",
            "image": "vllm/vllm-openai:v0.11.0",
            "args": ["--model", "x", "--port", "8000"],
            "env": env,
            "ports": [{"name": "http", "containerPort": 8000}],
            "livenessProbe": {"httpGet": {"path": "/health", "port": "http"}},
            "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}},
        }]},
    })
}

fn bench(c: &mut Criterion) {
    let context = context();
    for (name, extra) in [("usual pod", 0), ("1 MB pod", 1 << 20)] {
        let pod = pod(extra);
        let patch = inject(&pod, &context).expect("injected").patch;
        let patch = serde_json::to_string(&patch).expect("data");
        println!("{name}: a patch of {} bytes", patch.len());
        c.bench_function(name, |b| {
            b.iter(|| inject(black_box(&pod), black_box(&context)).expect("injected"));
        });
        let text = pod.to_string();
        c.bench_function(&format!("{name}, from and to text"), |b| {
            b.iter(|| {
                let pod: Value = serde_json::from_str(black_box(&text)).expect("JSON");
                let injection = inject(&pod, &context).expect("injected");
                serde_json::to_string(&injection.patch).expect("data")
            });
        });
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
