//! A real API server with the operator installed, for the tests of the whole operator.
//!
//! All tests share one API server, and the operator watches all of it: so they take turns
//! ([`Cluster::turn`]), each with namespaces and operators of its own.

use crate::client::{Dial, PATIENCE};
use fairtide_api::names;
use fairtide_operator::{
    fleet::Progress,
    lease::{Claim, Timings},
    run::{Operator, Options, Source},
    webhook,
};
use fairtide_resolve::ObjectKey;
use fairtide_testkit::{ApiServer, BoundPod, eventually, http_get};
use k8s_openapi::api::{core::v1::Secret, events::v1::Event};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, time::Duration};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

pub const POOL: &str = "InferencePool";
pub const CLASS: &str = "TrafficClass";

/// Looked at more often than usual; what a busy machine may delay is as it is shipped.
const LEASE: Timings = Timings {
    duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry: Duration::from_millis(250),
};

pub struct Cluster<'a> {
    pub server: &'a ApiServer,
    pub client: Client,
    _turn: Option<MutexGuard<'static, ()>>,
}

/// A condition, but for its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub status: String,
    pub reason: String,
    pub message: String,
    pub generation: i64,
}

impl Cluster<'static> {
    /// The shared API server with both kinds and the operator's rights, for one test at a time.
    pub async fn turn() -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        static PREPARED: OnceCell<()> = OnceCell::const_new();
        let turn = TURN.lock().await;
        let server = ApiServer::shared().await.unwrap();
        PREPARED
            .get_or_init(async || {
                install_kinds(server).await;
                install_operator(server).await;
            })
            .await;
        Self {
            client: server.client().await.unwrap(),
            server,
            _turn: Some(turn),
        }
    }
}

impl<'a> Cluster<'a> {
    /// A test's own API server.
    pub async fn own(server: &'a ApiServer) -> Self {
        Self {
            client: server.client().await.unwrap(),
            server,
            _turn: None,
        }
    }

    /// Starts a replica of the operator.
    pub async fn operator(&self, host: &str) -> Operator {
        self.replica(host, None).await
    }

    /// The same with the webhook or without.
    pub async fn replica(&self, host: &str, webhook: Option<webhook::Options>) -> Operator {
        let client = self.operators_client().await;
        let options = Self::options(host, webhook);
        Operator::start(Source::Cluster(client), options)
            .await
            .unwrap()
    }

    /// A client with the operator's rights.
    pub async fn operators_client(&self) -> Client {
        self.server
            .service_account_client(names::SYSTEM_NAMESPACE, "fairtide-operator")
            .await
            .unwrap()
    }

    pub fn options(host: &str, webhook: Option<webhook::Options>) -> Options {
        let any = "127.0.0.1:0".parse().unwrap();
        Options {
            channel: any,
            admin: any,
            namespace: names::SYSTEM_NAMESPACE.to_owned(),
            ca_copy: None,
            names: Vec::new(),
            advertise: None,
            host: host.to_owned(),
            lease: LEASE,
            timings: Default::default(),
            clock: Default::default(),
            webhook,
        }
    }

    /// Starts a replica and waits until it holds the lease.
    pub async fn holder(&self, host: &str) -> Operator {
        let operator = self.operator(host).await;
        wait_for(&operator, Claim::is_held).await;
        operator
    }

    pub async fn namespace(&self, name: &str) {
        self.server.create_namespace(name).await.unwrap();
    }

    pub async fn apply(&self, yaml: &str) {
        self.server.apply(yaml).await.unwrap();
    }

    /// A pod of the pool in `namespace`.
    pub async fn pod(&self, namespace: &str, name: &str) -> BoundPod {
        self.server
            .create_bound_pod(namespace, name, &[("app", "vllm")])
            .await
            .unwrap()
    }

    pub async fn ca_pem(&self) -> String {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), names::SYSTEM_NAMESPACE);
        eventually("the CA", PATIENCE, async || {
            let secret = secrets.get(names::CHANNEL_CA_SECRET).await?;
            let data = secret.data.unwrap_or_default();
            Ok(String::from_utf8(data["ca.crt"].0.clone())?)
        })
        .await
        .unwrap()
    }

    /// Connects as a pod's sidecar would, once the operator is ready.
    pub async fn dial(&self, operator: &Operator, pod: &BoundPod) -> Dial {
        ready(operator).await;
        let token = self.server.bound_token(pod, names::TOKEN_AUDIENCE).await;
        Dial::new(
            operator.channel(),
            &self.ca_pem().await,
            &token.unwrap(),
            &format!("{}/{}", pod.namespace, pod.name),
        )
    }

    pub fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: names::GROUP.to_owned(),
            version: names::VERSION.to_owned(),
            api_version: names::API_VERSION.to_owned(),
            kind: kind.to_owned(),
            plural: match kind {
                POOL => "inferencepools".to_owned(),
                _ => "trafficclasses".to_owned(),
            },
        };
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> DynamicObject {
        self.api(kind, namespace).get(name).await.unwrap()
    }

    /// Merges into the spec of an object, as an edit would.
    pub async fn edit(&self, kind: &str, namespace: &str, name: &str, spec: Value) {
        let patch = json!({ "spec": spec });
        self.api(kind, namespace)
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// Waits until a condition of the present generation has this status and reason.
    pub async fn until(
        &self,
        (kind, namespace, name): (&str, &str, &str),
        (type_, status, reason): (&str, &str, &str),
    ) -> Condition {
        let api = self.api(kind, namespace);
        let what = format!("{kind} {namespace}/{name}: {type_} {status} {reason}");
        eventually(&what, PATIENCE, async || {
            let object = api.get(name).await?;
            let all = conditions(&object);
            let found = all.get(type_).cloned();
            let found = found.ok_or_else(|| anyhow::anyhow!("{all:#?}"))?;
            anyhow::ensure!(
                found.status == status && found.reason == reason,
                "{found:#?}"
            );
            anyhow::ensure!(
                Some(found.generation) == object.metadata.generation
                    && object.data["status"]["observedGeneration"] == json!(found.generation),
                "of another generation: {found:#?}"
            );
            Ok(found)
        })
        .await
        .unwrap()
    }

    /// Reasons and notes of the Events about an object.
    pub async fn events(&self, namespace: &str, name: &str) -> Vec<(String, String)> {
        let events = Api::<Event>::namespaced(self.client.clone(), namespace);
        let all = events.list(&ListParams::default()).await.unwrap();
        all.items
            .into_iter()
            .filter(|event| {
                let about = event
                    .regarding
                    .as_ref()
                    .and_then(|about| about.name.clone());
                about.as_deref() == Some(name)
            })
            .map(|event| {
                (
                    event.reason.unwrap_or_default(),
                    event.note.unwrap_or_default(),
                )
            })
            .collect()
    }
}

pub fn repo(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

pub async fn install_kinds(server: &ApiServer) {
    server.apply_path(&repo("crds")).await.unwrap();
}

/// The operator's namespace, ServiceAccount and rights, as a user installs them.
pub async fn install_operator(server: &ApiServer) {
    let rights = repo("manifests/rbac.yaml");
    server.apply_path(&rights).await.unwrap();
}

pub fn conditions(object: &DynamicObject) -> BTreeMap<String, Condition> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = object.data["status"]["conditions"].as_array();
    let all = all.into_iter().flatten().map(|condition| {
        let found = Condition {
            status: text(&condition["status"]),
            reason: text(&condition["reason"]),
            message: text(&condition["message"]),
            generation: condition["observedGeneration"].as_i64().unwrap_or(-1),
        };
        (text(&condition["type"]), found)
    });
    all.collect()
}

pub async fn wait_for(operator: &Operator, claim: impl Fn(&Claim) -> bool) {
    let mut receiver = operator.claim();
    tokio::time::timeout(PATIENCE, receiver.wait_for(claim))
        .await
        .expect("the lease's turn")
        .expect("a running operator");
}

/// Waits until the operator has listed all and has its certificate.
pub async fn ready(operator: &Operator) {
    let admin = operator.admin().to_string();
    eventually("the operator is ready", PATIENCE, async || {
        let (status, body) = http_get(&admin, "/readyz").await?;
        anyhow::ensure!(status.as_u16() == 200, "{body:?}");
        Ok(())
    })
    .await
    .unwrap();
}

pub async fn acked(operator: &Operator, pod: &BoundPod, version: &str) {
    let key = ObjectKey::new(&pod.namespace, &pod.name);
    eventually("an ack", PATIENCE, async || {
        let progress: Progress = operator.fleet().progress_of(&key);
        anyhow::ensure!(progress.acked.as_deref() == Some(version), "{progress:?}");
        Ok(())
    })
    .await
    .unwrap();
}

pub async fn metric(operator: &Operator, name: &str) -> f64 {
    let admin = operator.admin().to_string();
    let (_, page) = http_get(&admin, "/metrics").await.unwrap();
    let page = String::from_utf8(page.to_vec()).unwrap();
    let line = page
        .lines()
        .find(|line| line.split(' ').next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("{name} is not in\n{page}"));
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

pub fn pool(namespace: &str, name: &str) -> String {
    format!(
        "{{apiVersion: traffic.fairtide.dev/v1alpha1, kind: InferencePool,
          metadata: {{name: {name}, namespace: {namespace}}},
          spec: {{selector: {{matchLabels: {{app: vllm}}}}, targetPorts: [{{number: 8000}}],
            limiter: {{mode: Fixed, fixed: {{maxRequests: 8}}}}}}}}\n"
    )
}

pub fn class(namespace: &str, name: &str, pool: &str, more: &str) -> String {
    format!(
        "---\n{{apiVersion: traffic.fairtide.dev/v1alpha1, kind: TrafficClass,
          metadata: {{name: {name}, namespace: {namespace}}},
          spec: {{poolRefs: [{{name: {pool}}}], {more}}}}}\n"
    )
}
