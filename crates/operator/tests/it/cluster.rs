//! The whole operator against a real API server, with the rights of its own ServiceAccount.
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
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Secret, events::v1::Event};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, time::Duration};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

const POOL: &str = "InferencePool";
const CLASS: &str = "TrafficClass";

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
        let client = self
            .server
            .service_account_client(names::SYSTEM_NAMESPACE, "fairtide-operator")
            .await
            .unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let options = Options {
            channel: any,
            admin: any,
            namespace: names::SYSTEM_NAMESPACE.to_owned(),
            ca_copy: None,
            names: Vec::new(),
            advertise: None,
            host: host.to_owned(),
            lease: LEASE,
            webhook,
        };
        Operator::start(Source::Cluster(client), options)
            .await
            .unwrap()
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

async fn acked(operator: &Operator, pod: &BoundPod, version: &str) {
    let key = ObjectKey::new(&pod.namespace, &pod.name);
    eventually("an ack", PATIENCE, async || {
        let progress: Progress = operator.fleet().progress_of(&key);
        anyhow::ensure!(progress.acked.as_deref() == Some(version), "{progress:?}");
        Ok(())
    })
    .await
    .unwrap();
}

async fn metric(operator: &Operator, name: &str) -> f64 {
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

#[tokio::test]
async fn an_applied_policy_reaches_the_sidecar_and_the_status() {
    let cluster = Cluster::turn().await;
    cluster.namespace("whole").await;
    let operator = cluster.holder("whole").await;
    let (the_pool, the_class) = ((POOL, "whole", "llama"), (CLASS, "whole", "chat"));
    cluster
        .apply(&(pool("whole", "llama") + &class("whole", "chat", "llama", "tier: Interactive")))
        .await;
    for object in [the_pool, the_class] {
        cluster
            .until(object, ("Accepted", "True", "Accepted"))
            .await;
        cluster
            .until(object, ("ResolvedRefs", "True", "ResolvedRefs"))
            .await;
        cluster
            .until(object, ("Programmed", "Unknown", "NoEndpoints"))
            .await;
        cluster
            .until(object, ("Ready", "Unknown", "NoEndpoints"))
            .await;
    }

    let pod = cluster.pod("whole", "vllm-0").await;
    let dial = cluster.dial(&operator, &pod).await;
    let mut sidecar = dial.open().await.unwrap();
    let (_, policy) = sidecar.obey().await;
    assert_eq!(policy.limiter.max_requests, Some(8));
    for object in [the_pool, the_class] {
        cluster.until(object, ("Ready", "True", "Programmed")).await;
    }
    let status = cluster.get(POOL, "whole", "llama").await.data["status"].clone();
    let counts = json!({
        "matched": 1, "injected": 1, "connected": 1, "inSync": 1, "outdated": 1, "bypassable": 0,
    });
    assert_eq!(status["pods"], counts);
    let served = &cluster.get(CLASS, "whole", "chat").await.data["status"]["pools"];
    assert_eq!(*served, json!(1));

    // Edits: refused at first, then obeyed.
    let edit = json!({ "limiter": { "fixed": { "maxRequests": 9 } } });
    cluster.edit(POOL, "whole", "llama", edit).await;
    let (version, _) = sidecar.snapshot().await.unwrap();
    sidecar.nack(&version, "nine is too many");
    let rejected = cluster
        .until(the_pool, ("Programmed", "False", "Rejected"))
        .await;
    assert!(
        rejected.message.contains("vllm-0: nine is too many"),
        "{rejected:?}"
    );
    cluster
        .until(the_pool, ("Stalled", "True", "Rejected"))
        .await;
    cluster
        .until(the_class, ("Programmed", "False", "Rejected"))
        .await;
    eventually("an Event", PATIENCE, async || {
        let events = cluster.events("whole", "llama").await;
        let told = events
            .iter()
            .any(|(reason, note)| reason == "Rejected" && note.contains("nine is too many"));
        anyhow::ensure!(told, "{events:?}");
        Ok(())
    })
    .await
    .unwrap();
    let edit = json!({ "limiter": { "fixed": { "maxRequests": 7 } } });
    cluster.edit(POOL, "whole", "llama", edit).await;
    let (version, policy) = sidecar.obey().await;
    assert_eq!(policy.limiter.max_requests, Some(7));
    assert_eq!(policy.pool.generation, 3);
    acked(&operator, &pod, &version).await;
    cluster
        .until(the_pool, ("Ready", "True", "Programmed"))
        .await;
    let now = conditions(&cluster.get(POOL, "whole", "llama").await);
    assert!(!now.contains_key("Stalled"), "{now:#?}");

    // The pool goes: the pod keeps what it has, and its channel.
    let pools = cluster.api(POOL, "whole");
    pools
        .delete("llama", &DeleteParams::default())
        .await
        .unwrap();
    cluster
        .until(the_class, ("ResolvedRefs", "False", "PoolNotFound"))
        .await;
    assert!(sidecar.silent_for(Duration::from_millis(100)).await);
    // The pod goes: the channel is closed.
    cluster.server.delete_pod(&pod).await.unwrap();
    sidecar.closed().await;
    operator.stop().await;
}

#[tokio::test]
async fn only_a_pods_own_token_for_us_opens_its_channel() {
    let cluster = Cluster::turn().await;
    cluster.namespace("tokens").await;
    cluster.apply(&pool("tokens", "llama")).await;
    let operator = cluster.holder("tokens").await;
    let pod = cluster.pod("tokens", "vllm-0").await;
    let other = cluster.pod("tokens", "vllm-1").await;
    let gone = cluster.pod("tokens", "vllm-2").await;
    let right = cluster.dial(&operator, &pod).await;
    let server = cluster.server;
    let audience = Some(names::TOKEN_AUDIENCE);
    let of_gone = server
        .bound_token(&gone, names::TOKEN_AUDIENCE)
        .await
        .unwrap();
    server.delete_pod(&gone).await.unwrap();
    let cases = [
        (
            "for the API server",
            server
                .bound_token(&pod, "https://kubernetes.default.svc")
                .await,
            401,
        ),
        ("of a deleted pod", Ok(of_gone), 401),
        (
            "bound to no pod",
            server
                .service_account_token("tokens", "default", audience)
                .await,
            403,
        ),
        (
            "of the operator itself",
            server
                .service_account_token(names::SYSTEM_NAMESPACE, "fairtide-operator", audience)
                .await,
            403,
        ),
        (
            "of another pod",
            server.bound_token(&other, names::TOKEN_AUDIENCE).await,
            403,
        ),
    ];
    for (whose, token, status) in cases {
        let wrong = Dial {
            token: Some(token.unwrap()),
            ..right.clone()
        };
        let refused = wrong.open().await.err();
        let refused = refused.unwrap_or_else(|| panic!("a token {whose} opened the channel"));
        assert_eq!(refused.status.as_u16(), status, "{whose}: {refused:?}");
    }
    right.open().await.unwrap().obey().await;

    // A pod made anew under the same name is another pod, and its channel a new one.
    let mut old = right.open().await.unwrap();
    server.delete_pod(&pod).await.unwrap();
    let again = cluster.pod("tokens", "vllm-0").await;
    while old.snapshot().await.is_some() {}
    let mut new = cluster.dial(&operator, &again).await.open().await.unwrap();
    new.obey().await;
    // The first pod's token was believed a moment ago, and that is still remembered.
    let refused = right.open().await.err().expect("another pod's token");
    assert!([401, 403].contains(&refused.status.as_u16()), "{refused:?}");
    operator.stop().await;
}

#[tokio::test]
async fn mistakes_end_as_conditions_that_name_what_to_write() {
    let cluster = Cluster::turn().await;
    cluster.namespace("mistakes").await;
    let operator = cluster.holder("mistakes").await;
    cluster.apply(&pool("mistakes", "llama")).await;
    let promise = |share: u32| format!("tier: Batch, minShare: {share}");
    cluster
        .apply(&class("mistakes", "older", "llama", &promise(60)))
        .await;
    let older = (CLASS, "mistakes", "older");
    cluster.until(older, ("Accepted", "True", "Accepted")).await;
    // Ages are counted in seconds; names decide within one.
    cluster
        .apply(&class("mistakes", "younger", "llama", &promise(50)))
        .await;
    let younger = (CLASS, "mistakes", "younger");
    let told = cluster
        .until(younger, ("Accepted", "True", "MinShareOverPromised"))
        .await;
    assert!(told.message.contains("90"), "{told:?}");
    cluster.until(older, ("Accepted", "True", "Accepted")).await;

    cluster
        .apply(&class("mistakes", "lost", "lama", "tier: Batch"))
        .await;
    let lost = (CLASS, "mistakes", "lost");
    let told = cluster
        .until(lost, ("ResolvedRefs", "False", "PoolNotFound"))
        .await;
    assert!(told.message.contains("lama"), "{told:?}");
    cluster
        .until(lost, ("Ready", "False", "RefsNotResolved"))
        .await;
    eventually("Events", PATIENCE, async || {
        for (name, reason) in [
            ("lost", "PoolNotFound"),
            ("younger", "MinShareOverPromised"),
        ] {
            let events = cluster.events("mistakes", name).await;
            let told: Vec<_> = events.iter().filter(|(r, _)| r == reason).collect();
            anyhow::ensure!(told.len() == 1, "{name}: {events:?}");
        }
        Ok(())
    })
    .await
    .unwrap();
    // What is allowed and odd is told by an Event alone.
    cluster
        .apply(&class("mistakes", "chat", "llama", "tier: Interactive"))
        .await;
    let hasty = "tier: Batch, minShare: 0, priority: 200";
    cluster
        .apply(&class("mistakes", "hasty", "llama", hasty))
        .await;
    eventually("a warning", PATIENCE, async || {
        let events = cluster.events("mistakes", "hasty").await;
        anyhow::ensure!(events.iter().any(|(r, _)| r == "BatchFirst"), "{events:?}");
        Ok(())
    })
    .await
    .unwrap();
    cluster
        .until(
            (CLASS, "mistakes", "hasty"),
            ("Accepted", "True", "Accepted"),
        )
        .await;
    // The pool comes later: GitOps knows no order.
    cluster.apply(&pool("mistakes", "lama")).await;
    cluster
        .until(lost, ("ResolvedRefs", "True", "ResolvedRefs"))
        .await;

    // Two classes for the same requests: the older has them, the younger is told.
    let takes = "tier: Interactive, match: [{path: {value: /v1/completions}}]";
    cluster
        .apply(&class("mistakes", "a-first", "llama", takes))
        .await;
    cluster
        .until(
            (CLASS, "mistakes", "a-first"),
            ("Accepted", "True", "Accepted"),
        )
        .await;
    cluster
        .apply(&class("mistakes", "b-second", "llama", takes))
        .await;
    let second = (CLASS, "mistakes", "b-second");
    let told = cluster
        .until(second, ("Conflicted", "True", "MatchOverlap"))
        .await;
    assert!(told.message.contains("a-first"), "{told:?}");
    operator.stop().await;
}

#[tokio::test]
async fn at_rest_and_after_a_restart_nothing_is_written() {
    let cluster = Cluster::turn().await;
    cluster.namespace("rest").await;
    let first = cluster.holder("rest-1").await;
    let mut objects = pool("rest", "llama");
    for n in 0..20 {
        objects += &class(
            "rest",
            &format!("c{n}"),
            "llama",
            "tier: Batch, minShare: 1",
        );
    }
    cluster.apply(&objects).await;
    let pod = cluster.pod("rest", "vllm-0").await;
    let mut sidecar = cluster.dial(&first, &pod).await.open().await.unwrap();
    // Some come while the classes do.
    let (mut version, mut policy) = sidecar.obey().await;
    while policy.classes.len() < 20 {
        (version, policy) = sidecar.obey().await;
    }
    acked(&first, &pod, &version).await;
    for n in 0..20 {
        let class = format!("c{n}");
        cluster
            .until((CLASS, "rest", &class), ("Ready", "True", "Programmed"))
            .await;
    }
    cluster
        .until((POOL, "rest", "llama"), ("Ready", "True", "Programmed"))
        .await;
    let versions = || async {
        let mut versions = BTreeMap::new();
        for kind in [POOL, CLASS] {
            let all = cluster.api(kind, "rest").list(&ListParams::default()).await;
            for object in all.unwrap().items {
                versions.insert((kind, object.name_any()), object.resource_version());
            }
        }
        versions
    };
    let before = versions().await;
    let writes = metric(&first, "fairtide_operator_status_writes_total").await;
    // Rounds of writing are 200 ms apart: time for several, each with a reason to look.
    for _ in 0..10 {
        sidecar.ack(&version);
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert_eq!(
        metric(&first, "fairtide_operator_status_writes_total").await,
        writes
    );
    assert_eq!(versions().await, before);

    // The next operator finds all as it should be; a new object shows that it is at work.
    first.stop().await;
    sidecar.closed().await;
    let second = cluster.holder("rest-2").await;
    cluster
        .apply(&class("rest", "marker", "lama", "tier: Batch"))
        .await;
    cluster
        .until(
            (CLASS, "rest", "marker"),
            ("ResolvedRefs", "False", "PoolNotFound"),
        )
        .await;
    let mut sidecar = cluster.dial(&second, &pod).await.open().await.unwrap();
    let (again, _) = sidecar.obey().await;
    assert_eq!(again, version, "the same content has the same version");
    acked(&second, &pod, &again).await;
    for _ in 0..5 {
        sidecar.ack(&again);
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    let mut after = versions().await;
    after.remove(&(CLASS, "marker".to_owned()));
    assert_eq!(after, before);
    second.stop().await;
}

#[tokio::test]
async fn of_two_operators_the_holder_alone_works_and_the_other_takes_over() {
    let cluster = Cluster::turn().await;
    cluster.namespace("two").await;
    cluster.apply(&pool("two", "llama")).await;
    let pod = cluster.pod("two", "vllm-0").await;
    let first = cluster.holder("two-1").await;
    let second = cluster.operator("two-2").await;
    wait_for(&second, |claim| matches!(claim, Claim::Other { .. })).await;
    let mut sidecar = cluster.dial(&first, &pod).await.open().await.unwrap();
    sidecar.obey().await;
    let the_pool = (POOL, "two", "llama");
    cluster
        .until(the_pool, ("Ready", "True", "Programmed"))
        .await;

    // The other points to the holder, under the same CA.
    let at_second = cluster.dial(&second, &pod).await;
    let refused = at_second.open().await.err().expect("a pointer");
    assert_eq!(refused.status.as_u16(), 307);
    let holder = format!("https://{}/v1/channel", first.channel());
    assert_eq!(refused.location, Some(holder));
    assert_eq!(
        metric(&second, "fairtide_operator_status_writes_total").await,
        0.0
    );
    assert_eq!(metric(&second, "fairtide_operator_lease_held").await, 0.0);

    // The holder leaves: the other has the lease long before it would have run out.
    first.stop().await;
    sidecar.closed().await;
    wait_for(&second, Claim::is_held).await;
    let mut sidecar = at_second.open().await.unwrap();
    sidecar.obey().await;
    let edit = json!({ "limiter": { "fixed": { "maxRequests": 9 } } });
    cluster.edit(POOL, "two", "llama", edit).await;
    assert_eq!(sidecar.obey().await.1.limiter.max_requests, Some(9));
    cluster
        .until(the_pool, ("Ready", "True", "Programmed"))
        .await;
    second.stop().await;

    let leases = Api::<Lease>::namespaced(cluster.client.clone(), names::SYSTEM_NAMESPACE);
    let spec = leases
        .get(names::OPERATOR_LEASE)
        .await
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(spec.holder_identity.unwrap_or_default(), "");
}

#[tokio::test]
async fn a_holder_that_dies_is_replaced_when_its_lease_runs_out() {
    let cluster = Cluster::turn().await;
    let (started, holds) = tokio::sync::oneshot::channel();
    let (kill, killed) = tokio::sync::oneshot::channel::<()>();
    // A runtime of its own ends with all tasks at once, as a killed process does.
    let doomed = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async move {
            let server = ApiServer::shared().await.unwrap();
            let first = Cluster::own(server).await.holder("dies-1").await;
            started.send(()).unwrap();
            killed.await.unwrap();
            std::mem::forget(first);
        });
        runtime.shutdown_background();
    });
    holds.await.unwrap();
    let second = cluster.operator("dies-2").await;
    wait_for(&second, |claim| matches!(claim, Claim::Other { .. })).await;
    kill.send(()).unwrap();
    doomed.join().unwrap();
    wait_for(&second, Claim::is_held).await;
    second.stop().await;
}

/// Fields of a newer or hand-made CustomResourceDefinition: anything goes into the spec.
fn anything_goes(crd: &str) -> String {
    let open = json!({
        "type": "object",
        "properties": {
            "spec": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
            "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    });
    let mut crd: Value = serde_yaml::from_str(crd).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = open;
    crd.to_string()
}

#[tokio::test]
async fn late_kinds_broken_objects_and_an_absent_api_server_are_survived() {
    let mut server = ApiServer::start().await.unwrap();
    install_operator(&server).await;
    let cluster = Cluster::own(&server).await;
    let operator = cluster.holder("hard").await;
    let admin = operator.admin().to_string();
    let (status, body) = http_get(&admin, "/readyz").await.unwrap();
    assert_eq!(status.as_u16(), 503);
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(
        body.contains("trafficclasses.traffic.fairtide.dev"),
        "{body}"
    );

    // The kinds come late, and with a schema that lets anything in.
    for file in ["inferencepools", "trafficclasses"] {
        let path = repo(&format!("crds/{file}.traffic.fairtide.dev.yaml"));
        let crd = std::fs::read_to_string(path).unwrap();
        cluster.apply(&anything_goes(&crd)).await;
    }
    ready(&operator).await;
    cluster.namespace("hard").await;
    cluster.apply(&pool("hard", "good")).await;
    let good = (POOL, "hard", "good");
    cluster.until(good, ("Accepted", "True", "Accepted")).await;
    let pod = cluster.pod("hard", "vllm-0").await;
    let mut sidecar = cluster.dial(&operator, &pod).await.open().await.unwrap();
    let (before, _) = sidecar.obey().await;
    acked(&operator, &pod, &before).await;
    cluster.until(good, ("Ready", "True", "Programmed")).await;

    // Unreadable, and readable but out of its bounds: both are told, and stop nobody else.
    let unreadable = pool("hard", "unreadable").replace("spec: {", "spec: {mode: Sideways, ");
    cluster.apply(&unreadable).await;
    let told = cluster
        .until(
            (POOL, "hard", "unreadable"),
            ("Accepted", "False", "Invalid"),
        )
        .await;
    assert!(told.message.contains("Sideways"), "{told:?}");
    cluster
        .apply(&class("hard", "heavy", "good", "tier: Batch, weight: -1"))
        .await;
    let heavy = (CLASS, "hard", "heavy");
    let told = cluster.until(heavy, ("Accepted", "False", "Invalid")).await;
    assert!(told.message.contains("weight"), "{told:?}");
    cluster
        .until(heavy, ("Ready", "False", "NotAccepted"))
        .await;
    // A good one that breaks stays in force as it was.
    cluster
        .edit(POOL, "hard", "good", json!({ "mode": "Sideways" }))
        .await;
    cluster.until(good, ("Accepted", "False", "Invalid")).await;
    assert!(sidecar.silent_for(Duration::from_millis(100)).await);
    let writes = metric(&operator, "fairtide_operator_status_writes_total").await;
    for _ in 0..5 {
        sidecar.ack(&before);
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert_eq!(
        metric(&operator, "fairtide_operator_status_writes_total").await,
        writes
    );
    cluster
        .edit(POOL, "hard", "good", json!({ "mode": "Bypass" }))
        .await;
    let (bypass, _) = sidecar.obey().await;
    assert_ne!(bypass, before);
    cluster.until(good, ("Ready", "True", "Bypassed")).await;
    drop(cluster);

    // The API server is away for longer than the lease may go without.
    let mut claim = operator.claim();
    server.stop();
    tokio::time::timeout(PATIENCE, claim.wait_for(|claim| *claim == Claim::Unknown))
        .await
        .expect("a lease that can't be renewed is no claim")
        .unwrap();
    // The channel stays, and says nothing.
    assert!(sidecar.silent_for(Duration::from_millis(100)).await);
    server.start_again().await.unwrap();
    let cluster = Cluster::own(&server).await;
    let edit = json!({ "mode": "Enforce" });
    cluster.edit(POOL, "hard", "good", edit).await;
    let (_, policy) = sidecar.obey().await;
    assert_eq!(policy.mode, fairtide_policy::Mode::Enforce);
    cluster.until(good, ("Ready", "True", "Programmed")).await;
    operator.stop().await;
}
