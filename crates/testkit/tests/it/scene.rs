//! What the end-to-end tests act in: a namespace with a pool, classes by header, one pod whose
//! engine the test scripts, and the sidecar before it. All programs are the real ones.

use anyhow::{Context, ensure};
use fairtide_testkit::{
    Answer, Call, Installation, ScriptedEngine, Sidecar, SidecarAsked, eventually,
};
use http::StatusCode;
use serde_json::Value;
use std::{net::SocketAddr, time::Duration};
use tokio::task::JoinHandle;

/// For what takes milliseconds on a machine that does nothing else.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// What an engine answers where the test doesn't care.
pub const COMPLETION: &str = r#"{"object":"text_completion","choices":[{"text":"x","index":0}],"usage":{"prompt_tokens":2,"completion_tokens":1}}"#;

/// A pool of the pods with its name as label `app`, whose engines take so many requests at once.
pub fn pool(name: &str, max_requests: u32) -> String {
    format!(
        "
apiVersion: traffic.fairtide.dev/v1alpha1
kind: InferencePool
metadata: {{name: {name}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  targetPorts: [{{number: 8000}}]
  limiter: {{mode: Fixed, fixed: {{maxRequests: {max_requests}}}}}
---
"
    )
}

/// A class of the pool `llama` for requests with its name as header `x-kind`; `more` are further
/// fields of its spec, in flow style.
pub fn class(name: &str, tier: &str, more: &str) -> String {
    format!(
        "
apiVersion: traffic.fairtide.dev/v1alpha1
kind: TrafficClass
metadata: {{name: {name}}}
spec: {{poolRefs: [{{name: llama}}], tier: {tier}, match: [{{headers: [{{name: x-kind, value: {name}}}]}}], {more}}}
---
"
    )
}

/// One pod `llama-0` of the pool `llama`.
pub struct Scene {
    pub engine: ScriptedEngine,
    pub sidecar: Sidecar,
}

// === impl Scene ===

impl Scene {
    /// Applies the objects as a user would, then starts the pod and waits for its policy.
    pub async fn set(fairtide: &Installation, namespace: &str, objects: &str) -> Self {
        fairtide.api.create_namespace(namespace).await.unwrap();
        apply(fairtide, namespace, objects).await;
        let engine = ScriptedEngine::start().await.unwrap();
        let asked = SidecarAsked {
            namespace,
            name: "llama-0",
            labels: &[("app", "llama")],
            engine: engine.address(),
        };
        let sidecar = fairtide.start_sidecar(asked).await.unwrap();
        let scene = Self { engine, sidecar };
        scene.shows("/policy/source", "channel").await;
        scene
    }

    /// Offers a request of one kind; aborting the task is a client that leaves.
    pub fn post(&self, kind: &'static str) -> JoinHandle<anyhow::Result<Answer>> {
        tokio::spawn(post(self.sidecar.address(), kind))
    }

    /// The next request that has reached the engine.
    pub async fn arrival(&mut self) -> Call {
        self.engine.next(DEADLINE).await.unwrap()
    }

    /// Waits until the sidecar's debug page shows this.
    pub async fn shows(&self, pointer: &str, value: impl Into<Value>) {
        self.sidecar.shows(pointer, value, DEADLINE).await.unwrap();
    }

    /// Waits until a class has this field in the policy in force; Null: it has none.
    pub async fn shows_class(&self, class: &str, field: &str, value: impl Into<Value>) {
        let value = value.into();
        let what = format!("class {class} has {field} = {value}");
        eventually(&what, DEADLINE, async || {
            let state = self.sidecar.state().await?;
            let classes = &state["policy"]["document"]["classes"];
            let class = named(classes, class).context("no such class")?;
            let found = class.pointer(&format!("/{field}")).unwrap_or(&Value::Null);
            ensure!(*found == value, "it is {found}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Waits until so many requests of a class are queued.
    pub async fn queued(&self, class: &str, count: u32) {
        let what = format!("{count} of {class} are queued");
        eventually(&what, DEADLINE, async || {
            let state = self.sidecar.state().await?;
            let class = named(&state["scheduler"]["classes"], class);
            let queued = &class.context("no such class")?["queued"];
            ensure!(*queued == count, "it is {queued}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

fn named<'a>(classes: &'a Value, name: &str) -> Option<&'a Value> {
    classes.as_array()?.iter().find(|one| one["name"] == name)
}

/// `kubectl apply`, which must succeed.
pub async fn apply(fairtide: &Installation, namespace: &str, objects: &str) -> String {
    let args = ["apply", "-n", namespace, "-f", "-"];
    fairtide.api.kubectl_with(&args, objects).await.unwrap()
}

/// `kubectl apply`, which must fail, and what it says.
pub async fn refused(fairtide: &Installation, namespace: &str, objects: &str) -> String {
    let args = ["apply", "-n", namespace, "-f", "-"];
    let error = fairtide.api.kubectl_with(&args, objects).await;
    format!("{:#}", error.unwrap_err())
}

/// Posts a request of one kind.
pub async fn post(sidecar: SocketAddr, kind: &str) -> anyhow::Result<Answer> {
    let body = r#"{"model":"llama","prompt":"hi","max_tokens":1}"#;
    fairtide_testkit::http_post(sidecar, "/v1/completions", &[("x-kind", kind)], body).await
}

/// The kind of a request that has arrived.
pub fn kind(call: &Call) -> &str {
    call.head.headers["x-kind"].to_str().unwrap()
}

/// Answers a request, and checks that its client gets the answer.
pub async fn complete(call: Call, client: JoinHandle<anyhow::Result<Answer>>) -> Answer {
    call.answer(StatusCode::OK, COMPLETION);
    let answer = client.await.unwrap().unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    answer
}
