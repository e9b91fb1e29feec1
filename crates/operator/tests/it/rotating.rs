//! An API server whose webhook's certificates change: what the tests of that share.

use crate::{
    client::{PATIENCE, tls},
    cluster::{Cluster, install_kinds, install_operator},
};
use fairtide_api::names;
use fairtide_operator::{
    channel::ca::rotation::Timings,
    run::{Operator, Options, Source},
    webhook,
};
use fairtide_testkit::{ApiServer, eventually};
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration as Configuration,
    core::v1::{Pod, Secret},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// As shipped, but that nobody waits for days.
pub const TIMINGS: Timings = Timings {
    authority: DAY.saturating_mul(1_000),
    ahead: DAY.saturating_mul(180),
    least: Duration::ZERO,
    most: DAY,
    spread: Duration::from_secs(2),
    leaf: DAY.saturating_mul(30),
    every: Duration::from_millis(100),
};

pub async fn server() -> ApiServer {
    let server = ApiServer::start().await.unwrap();
    install_kinds(&server).await;
    install_operator(&server).await;
    server
}

pub fn options(host: &str, webhook: bool) -> Options {
    let webhook = webhook.then(|| webhook::Options {
        listen: "127.0.0.1:0".parse().unwrap(),
        sidecar_image: "fairtide-sidecar:test".to_owned(),
        channel_url: None,
        cert_dir: None,
    });
    Options {
        timings: TIMINGS,
        ..Cluster::options(host, webhook)
    }
}

pub async fn start(client: kube::Client, options: Options) -> Operator {
    Operator::start(Source::Cluster(client), options)
        .await
        .unwrap()
}

/// Two entries as in the manifest, each at one replica.
pub async fn hook(cluster: &Cluster<'_>, [by_pod, by_namespace]: [SocketAddr; 2]) {
    let entry = |name: &str, address: SocketAddr, selectors: Value| {
        let mut entry = json!({
            "name": format!("{name}.inject.fairtide.dev"),
            "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": format!("https://{address}/inject")},
            // A machine that compiles meanwhile is slow, and that is no failure.
            "timeoutSeconds": 30,
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        });
        for (key, value) in selectors.as_object().unwrap() {
            entry[key] = value.clone();
        }
        entry
    };
    let label = |operator: &str| json!({"matchExpressions": [{"key": "fairtide.dev/inject", "operator": operator}]});
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "fairtide"},
        "webhooks": [
            entry("pod", by_pod, json!({"objectSelector": label("Exists")})),
            entry("namespace", by_namespace, json!({
                "objectSelector": label("DoesNotExist"), "namespaceSelector": label("Exists"),
            })),
        ],
    });
    cluster.apply(&configuration.to_string()).await;
}

pub fn pod(labelled: bool) -> Pod {
    let labels = match labelled {
        true => json!({"app": "vllm", "fairtide.dev/inject": "enabled"}),
        false => json!({"app": "vllm"}),
    };
    serde_json::from_value(json!({
        "metadata": {"generateName": "vllm-", "labels": labels},
        "spec": {"containers": [{
            "name": "vllm", "image": "vllm/vllm-openai:v0.11.0", "args": ["--model", "m"],
        }]},
    }))
    .unwrap()
}

/// Two namespaces, of which one speaks for its pods.
pub async fn namespaces(cluster: &Cluster<'_>) {
    cluster.namespace("by-pod").await;
    cluster.namespace("by-namespace").await;
    cluster
        .apply("{apiVersion: v1, kind: Namespace, metadata: {name: by-namespace, labels: {fairtide.dev/inject: enabled}}}")
        .await;
}

/// Asks by a dry run whether a pod gets its sidecar.
pub async fn injected(client: &kube::Client, by_pod: bool) -> anyhow::Result<()> {
    let namespace = if by_pod { "by-pod" } else { "by-namespace" };
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let pod = pods.create(&dry, &pod(by_pod)).await?;
    let containers = pod.spec.and_then(|spec| spec.init_containers);
    let injected = containers.is_some_and(|all| all.iter().any(|c| c.name == "fairtide-sidecar"));
    anyhow::ensure!(injected, "created without a sidecar");
    Ok(())
}

pub async fn asked(cluster: &Cluster<'_>) {
    for by_pod in [true, false] {
        eventually("the API server asks", PATIENCE, async || {
            injected(&cluster.client, by_pod).await
        })
        .await
        .unwrap();
    }
}

pub async fn secret(cluster: &Cluster<'_>) -> BTreeMap<String, String> {
    let secrets = Api::<Secret>::namespaced(cluster.client.clone(), names::SYSTEM_NAMESPACE);
    let secret = secrets.get(names::CHANNEL_CA_SECRET).await.unwrap();
    let data = secret.data.unwrap().into_iter();
    data.map(|(key, value)| (key, String::from_utf8(value.0).unwrap()))
        .collect()
}

pub async fn patch_secret(cluster: &Cluster<'_>, patch: Value) {
    let secrets = Api::<Secret>::namespaced(cluster.client.clone(), names::SYSTEM_NAMESPACE);
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let name = names::CHANNEL_CA_SECRET;
    secrets.patch(name, &params, &patch).await.unwrap();
}

pub async fn rotate(cluster: &Cluster<'_>) {
    let asked = json!({"metadata": {"annotations": {"fairtide.dev/rotate": "now"}}});
    patch_secret(cluster, asked).await;
}

/// The bundles of our entries.
pub async fn bundles(cluster: &Cluster<'_>) -> Vec<String> {
    let api = Api::<Configuration>::all(cluster.client.clone());
    let entries = api.get("fairtide").await.unwrap().webhooks.unwrap();
    let bundles = entries.into_iter().map(|entry| {
        let bundle = entry.client_config.ca_bundle.unwrap_or_default();
        String::from_utf8(bundle.0).unwrap()
    });
    bundles.collect()
}

/// Waits until the current authority isn't this one and no next one waits; gives it.
pub async fn rotated(cluster: &Cluster<'_>, before: &str) -> String {
    eventually("another authority signs", PATIENCE, async || {
        let secret = secret(cluster).await;
        anyhow::ensure!(secret["ca.crt"] != before && !secret.contains_key("next.crt"));
        Ok(secret["ca.crt"].clone())
    })
    .await
    .unwrap()
}

/// Waits until a server shows a certificate of this authority.
pub async fn shows(address: SocketAddr, ca_pem: &str) {
    eventually("a certificate of the new authority", PATIENCE, async || {
        tls(address, "localhost".to_owned(), ca_pem, b"h2").await?;
        Ok(())
    })
    .await
    .unwrap();
}

/// Dry runs, a hundred a second, half of them at each replica.
pub struct Load {
    done: Arc<AtomicUsize>,
    failures: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Load {
    pub fn start(client: kube::Client) -> Self {
        let (done, failures) = (
            Arc::<AtomicUsize>::default(),
            Arc::<Mutex<Vec<_>>>::default(),
        );
        let stop = CancellationToken::new();
        let (counted, failed, stopped) = (done.clone(), failures.clone(), stop.clone());
        let task = tokio::spawn(async move {
            // What a slow machine can't do is not asked of it: no more than this at a time.
            let places = Arc::new(Semaphore::new(64));
            let mut ticks = tokio::time::interval(Duration::from_millis(10));
            let mut by_pod = true;
            while !stopped.is_cancelled() {
                ticks.tick().await;
                let place = places.clone().acquire_owned().await.unwrap();
                by_pod = !by_pod;
                let (client, counted, failed) = (client.clone(), counted.clone(), failed.clone());
                tokio::spawn(async move {
                    if let Err(error) = injected(&client, by_pod).await {
                        failed.lock().push(error.to_string());
                    }
                    counted.fetch_add(1, Ordering::Relaxed);
                    drop(place);
                });
            }
            let _all = places.acquire_many(64).await.unwrap();
        });
        Self {
            done,
            failures,
            stop,
            task,
        }
    }

    /// Waits until so many more have been answered.
    pub async fn more(&self, count: usize) {
        let goal = self.done.load(Ordering::Relaxed) + count;
        eventually("answers", PATIENCE, async || {
            let done = self.done.load(Ordering::Relaxed);
            anyhow::ensure!(done >= goal, "{done} of {goal}");
            Ok(())
        })
        .await
        .unwrap();
    }

    pub async fn end(self) -> usize {
        self.stop.cancel();
        self.task.await.unwrap();
        assert_eq!(*self.failures.lock(), [""; 0]);
        self.done.load(Ordering::Relaxed)
    }
}

/// A certificate for the webhook, as cert-manager makes it.
pub struct Foreign {
    pub ca: String,
    pub cert: String,
    pub key: String,
}

pub fn foreign() -> Foreign {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    let name = format!("foreign {}", ca_key.public_key_pem().len());
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate().unwrap();
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let params = CertificateParams::new(names).unwrap();
    Foreign {
        ca,
        cert: params.signed_by(&key, &issuer).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

/// Fills a directory as the kubelet does: links into a folder that is swapped whole.
pub fn mount(dir: &std::path::Path, version: &str, files: &Foreign) {
    let folder = dir.join(version);
    std::fs::create_dir(&folder).unwrap();
    for (name, text) in [
        ("tls.crt", &files.cert),
        ("tls.key", &files.key),
        ("ca.crt", &files.ca),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
        let _ = std::os::unix::fs::symlink(format!("..data/{name}"), dir.join(name));
    }
    std::os::unix::fs::symlink(version, dir.join("..data_tmp")).unwrap();
    std::fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
}
