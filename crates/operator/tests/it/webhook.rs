//! The webhook as a real API server calls it, installed from `manifests/` but for its address.

use crate::{
    client::{Https, PATIENCE},
    cluster::{Cluster, pool, ready, repo, wait_for},
};
use fairtide_operator::{lease::Claim, run::Operator, webhook};
use fairtide_testkit::eventually;
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration as Configuration, core::v1::Pod,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde::Deserialize;
use serde_json::{Value, json};

const MANIFEST: &str = "manifests/webhook.yaml";
const IGNORE: &str = "manifests/ignore/webhook.yaml";

/// What `manifests/` holds, with the webhook's address in the place of the Service.
fn documents(path: &str, url: Option<String>) -> Vec<Value> {
    let text = std::fs::read_to_string(repo(path)).unwrap();
    let documents = serde_yaml::Deserializer::from_str(&text);
    let mut documents: Vec<Value> = documents
        .map(|one| Value::deserialize(one).unwrap())
        .collect();
    for document in &mut documents {
        let entries = document.get_mut("webhooks").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            if let Some(url) = &url {
                entry["clientConfig"] = json!({ "url": url });
            }
        }
    }
    documents
}

pub struct Installed<'a> {
    cluster: &'a Cluster<'a>,
    operator: Operator,
}

impl<'a> Installed<'a> {
    /// An operator with the webhook, and the API server set up to ask it.
    async fn new(cluster: &'a Cluster<'a>, host: &str, path: &str) -> Self {
        let options = webhook::Options {
            listen: "127.0.0.1:0".parse().unwrap(),
            sidecar_image: "fairtide-sidecar:test".to_owned(),
            channel_url: None,
            cert_dir: None,
        };
        configurations(cluster)
            .delete(webhook::bundle::CONFIGURATION, &DeleteParams::default())
            .await
            .ok();
        let operator = cluster.replica(host, Some(options)).await;
        wait_for(&operator, Claim::is_held).await;
        ready(&operator).await;
        let this = Self { cluster, operator };
        this.apply(path).await;
        this.trusted().await;
        this
    }

    async fn apply(&self, path: &str) {
        let address = self.operator.webhook().unwrap();
        for document in documents(path, Some(format!("https://{address}/inject"))) {
            self.cluster.apply(&document.to_string()).await;
        }
    }

    /// Waits until the API server was told whom to trust.
    async fn trusted(&self) {
        let ca = self.cluster.ca_pem().await;
        eventually("caBundle", PATIENCE, async || {
            let object = configurations(self.cluster).get("fairtide").await?;
            for entry in object.webhooks.into_iter().flatten() {
                let bundle = entry.client_config.ca_bundle.unwrap_or_default();
                anyhow::ensure!(bundle.0 == ca.as_bytes(), "{}", entry.name);
            }
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Waits until the API server asks: it takes a new configuration in a moment later.
    async fn asked(&self, namespace: &str) {
        let pods = pods(self.cluster, namespace);
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually("the API server asks", PATIENCE, async || {
            let pod = pods.create(&dry, &engine("probe", "enabled")).await?;
            anyhow::ensure!(is_injected(&pod), "not injected");
            Ok(())
        })
        .await
        .unwrap();
    }
}

fn configurations(cluster: &Cluster<'_>) -> Api<Configuration> {
    Api::all(cluster.client.clone())
}

fn pods(cluster: &Cluster<'_>, namespace: &str) -> Api<Pod> {
    Api::namespaced(cluster.client.clone(), namespace)
}

/// A vLLM pod; without a label where that is empty.
fn engine(name: &str, label: &str) -> Pod {
    let mut labels = json!({"app": "vllm"});
    if !label.is_empty() {
        labels["fairtide.dev/inject"] = json!(label);
    }
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{
            "name": "vllm",
            "image": "vllm/vllm-openai:v0.11.0",
            "args": ["--model", "m"],
            "ports": [{"name": "http", "containerPort": 8000}],
            "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}},
        }]},
    }))
    .unwrap()
}

fn sidecar(pod: &Pod) -> Option<Value> {
    let spec = pod.spec.as_ref()?;
    let mut containers = spec.init_containers.iter().flatten();
    let found = containers.find(|container| container.name == "fairtide-sidecar")?;
    serde_json::to_value(found).ok()
}

fn is_injected(pod: &Pod) -> bool {
    sidecar(pod).is_some()
}

fn bootstrap(pod: &Pod) -> Value {
    let sidecar = sidecar(pod).expect("a sidecar");
    let mut variables = sidecar["env"].as_array().into_iter().flatten();
    let found = variables.find(|one| one["name"] == "FAIRTIDE_BOOTSTRAP");
    serde_json::from_str(found.unwrap()["value"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn pods_that_opted_in_get_the_sidecar_and_no_others() {
    let cluster = Cluster::turn().await;
    cluster.namespace("hooked").await;
    let installed = Installed::new(&cluster, "hooked", MANIFEST).await;
    installed.asked("hooked").await;
    let pods = pods(&cluster, "hooked");
    let create = PostParams::default();

    // Before its pool exists.
    let early = pods.create(&create, &engine("early", "enabled")).await;
    let early = bootstrap(&early.unwrap());
    assert!(early.get("pool").is_none(), "{early}");
    assert_eq!(
        early["channel"]["url"],
        "https://fairtide-operator.fairtide-system.svc:8443"
    );
    assert_eq!(early["channel"]["caPem"], cluster.ca_pem().await);

    // And after.
    cluster.apply(&pool("hooked", "llama")).await;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let late = eventually("the pool is known", PATIENCE, async || {
        let pod = pods.create(&dry, &engine("late", "enabled")).await?;
        let bootstrap = bootstrap(&pod);
        anyhow::ensure!(bootstrap["pool"]["name"] == "llama", "{bootstrap}");
        Ok(bootstrap)
    })
    .await
    .unwrap();
    assert!(late["policy"].is_object(), "{late}");
    assert!(pods.get_opt("late").await.unwrap().is_none(), "dry run");

    let plain = pods.create(&create, &engine("plain", "")).await.unwrap();
    assert!(!is_injected(&plain));
    let not = pods.create(&create, &engine("not", "disabled")).await;
    assert!(!is_injected(&not.unwrap()));

    // What can't be injected is refused in words.
    let mut shell = engine("shell", "enabled");
    let container = &mut shell.spec.as_mut().unwrap().containers[0];
    container.command = Some(
        ["sh", "-c", "vllm serve m & wait"]
            .map(str::to_owned)
            .into(),
    );
    let refused = pods.create(&create, &shell).await.unwrap_err().to_string();
    assert!(
        refused.contains("denied the request: fairtide: "),
        "{refused}"
    );

    // A namespace speaks for its pods.
    cluster.namespace("hooked-all").await;
    cluster
        .apply("{apiVersion: v1, kind: Namespace, metadata: {name: hooked-all, labels: {fairtide.dev/inject: enabled}}}")
        .await;
    let all = self::pods(&cluster, "hooked-all");
    eventually("the namespace's label counts", PATIENCE, async || {
        let pod = all.create(&dry, &engine("by-namespace", "")).await?;
        anyhow::ensure!(is_injected(&pod), "not injected");
        Ok(())
    })
    .await
    .unwrap();
    installed.operator.stop().await;
}

#[tokio::test]
async fn without_an_operator_only_pods_that_opted_in_wait_unless_asked_otherwise() {
    let cluster = Cluster::turn().await;
    cluster.namespace("alone").await;
    let installed = Installed::new(&cluster, "alone", MANIFEST).await;
    installed.asked("alone").await;
    let address = installed.operator.webhook().unwrap();
    installed.operator.stop().await;
    let pods = pods(&cluster, "alone");
    let create = PostParams::default();
    let error = pods.create(&create, &engine("mine", "enabled")).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("pod.inject.fairtide.dev"), "{error}");
    pods.create(&create, &engine("others", "")).await.unwrap();

    for document in documents(IGNORE, Some(format!("https://{address}/inject"))) {
        cluster.apply(&document.to_string()).await;
    }
    let pod = eventually("failures are ignored", PATIENCE, async || {
        Ok(pods.create(&create, &engine("mine", "enabled")).await?)
    })
    .await
    .unwrap();
    assert!(!is_injected(&pod));
}

#[tokio::test]
async fn the_final_pod_is_checked_without_the_operator() {
    let cluster = Cluster::turn().await;
    cluster.namespace("checked").await;
    let installed = Installed::new(&cluster, "checked", MANIFEST).await;
    installed.asked("checked").await;
    let pods = pods(&cluster, "checked");
    let create = PostParams::default();
    let good = pods.create(&create, &engine("good", "enabled")).await;
    let mut good = good.unwrap();
    installed.operator.stop().await;
    configurations(&cluster)
        .delete("fairtide", &DeleteParams::default())
        .await
        .unwrap();
    // As another webhook would leave it.
    good.metadata = kube::api::ObjectMeta {
        labels: good.metadata.labels,
        annotations: good.metadata.annotations,
        ..Default::default()
    };
    good.status = None;
    let tampered = |name: &str, change: &dyn Fn(&mut Pod)| {
        let mut pod = good.clone();
        pod.metadata.name = Some(name.to_owned());
        change(&mut pod);
        pod
    };
    let ordinary = tampered("ordinary", &|pod| {
        let containers = &mut pod.spec.as_mut().unwrap().init_containers;
        for container in containers.iter_mut().flatten() {
            container.restart_policy = None;
            container.startup_probe = None;
            container.readiness_probe = None;
            container.liveness_probe = None;
            container.lifecycle = None;
        }
    });
    let removed = tampered("removed", &|pod| {
        pod.spec.as_mut().unwrap().init_containers = None;
    });
    let unmarked = tampered("unmarked", &|pod| {
        pod.metadata.annotations = None;
    });
    for (pod, says) in [
        (ordinary, "restartPolicy: Always"),
        (removed, "restartPolicy: Always"),
        (unmarked, "go together"),
    ] {
        eventually(says, PATIENCE, async || {
            let denied = pods.create(&create, &pod).await;
            let Err(error) = denied else {
                pods.delete(
                    pod.metadata.name.as_deref().unwrap(),
                    &DeleteParams::default().grace_period(0),
                )
                .await?;
                anyhow::bail!("created: {pod:?}");
            };
            anyhow::ensure!(error.to_string().contains(says), "{error}");
            Ok(())
        })
        .await
        .unwrap();
    }
    pods.create(&create, &tampered("whole", &|_| {}))
        .await
        .unwrap();
}

#[tokio::test]
async fn ca_bundle_is_ours_alone_comes_back_and_shows_no_difference() {
    let cluster = Cluster::turn().await;
    let installed = Installed::new(&cluster, "bundle", MANIFEST).await;
    // As users install it.
    let api = configurations(&cluster);
    api.delete("fairtide", &DeleteParams::default())
        .await
        .unwrap();
    let path = repo(MANIFEST);
    let path = path.to_str().unwrap();
    cluster
        .server
        .kubectl(&["apply", "-f", path])
        .await
        .unwrap();
    installed.trusted().await;
    let diff = cluster.server.kubectl(&["diff", "-f", path]).await;
    assert_eq!(diff.unwrap(), "");
    // So does a GitOps tool, again and again, without force.
    for _ in 0..2 {
        let gitops = ["--server-side", "--field-manager=argocd", "-f", path];
        let apply = [&["apply"], &gitops[..]].concat();
        cluster.server.kubectl(&apply).await.unwrap();
        let diff = [&["diff"], &gitops[..]].concat();
        assert_eq!(cluster.server.kubectl(&diff).await.unwrap(), "");
        for entry in api.get("fairtide").await.unwrap().webhooks.unwrap() {
            let bundle = entry.client_config.ca_bundle.unwrap();
            assert_eq!(bundle.0, cluster.ca_pem().await.into_bytes(), "it stays");
        }
    }

    let object = api.get("fairtide").await.unwrap();
    let managed = object.metadata.managed_fields.unwrap();
    let ours = managed
        .iter()
        .find(|one| one.manager.as_deref() == Some("fairtide-operator-ca"))
        .unwrap();
    let fields = serde_json::to_value(&ours.fields_v1).unwrap();
    for name in ["pod", "namespace"] {
        let key = format!(r#"k:{{"name":"{name}.inject.fairtide.dev"}}"#);
        let owned = &fields["f:webhooks"][&key];
        assert_eq!(
            owned["f:clientConfig"],
            json!({"f:caBundle": {}}),
            "{fields}"
        );
        assert!(owned.get("f:failurePolicy").is_none(), "{fields}");
    }

    // A tool that clears it, and adds an entry of somebody else's.
    let patch = json!([
        {"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"},
        {"op": "add", "path": "/webhooks/-", "value": {
            "name": "another.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "objectSelector": {"matchLabels": {"never": "there"}},
        }},
    ]);
    let patch = patch.to_string();
    let kind = "mutatingwebhookconfiguration";
    let line = ["patch", kind, "fairtide", "--type=json", "-p", &patch];
    cluster.server.kubectl(&line).await.unwrap();
    let ca = cluster.ca_pem().await;
    eventually("the bundle is back", PATIENCE, async || {
        let entries = api.get("fairtide").await?.webhooks.unwrap_or_default();
        anyhow::ensure!(entries.len() == 3);
        for entry in entries {
            let bundle = entry.client_config.ca_bundle.map(|bytes| bytes.0);
            let wanted = entry.name.ends_with(".inject.fairtide.dev");
            anyhow::ensure!(
                bundle == wanted.then(|| ca.clone().into_bytes()),
                "{}",
                entry.name
            );
        }
        Ok(())
    })
    .await
    .unwrap();
    api.delete("fairtide", &DeleteParams::default())
        .await
        .unwrap();
    installed.operator.stop().await;
}

#[test]
fn the_two_profiles_differ_in_their_failure_policy_alone() {
    let mut fail = documents(MANIFEST, None);
    let ignore = documents(IGNORE, None);
    for entry in fail[0]["webhooks"].as_array_mut().unwrap() {
        assert_eq!(entry["failurePolicy"], "Fail");
        entry["failurePolicy"] = json!("Ignore");
    }
    assert_eq!(fail[0], ignore[0]);
}

#[tokio::test]
async fn what_is_no_admission_review_is_answered_with_what_to_send() {
    let cluster = Cluster::turn().await;
    let installed = Installed::new(&cluster, "malformed", MANIFEST).await;
    let address = installed.operator.webhook().unwrap();
    let ca = cluster.ca_pem().await;
    let mut webhook = Https::connect(address, &ca).await.unwrap();
    let review = |change: &dyn Fn(&mut Value)| {
        let mut review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "namespace": "default",
                "operation": "CREATE", "object": engine("e", "enabled"),
            },
        });
        change(&mut review);
        review.to_string()
    };
    let post = || http::Request::post("/inject").header("content-type", "application/json");
    let plain = http::Request::post("/inject").header("content-type", "text/plain");
    let untyped = http::Request::post("/inject");
    let whole = review(&|_| ());
    for (request, body, status, says) in [
        (
            post(),
            String::new(),
            400,
            "AdmissionReview of admission.k8s.io/v1",
        ),
        (
            post(),
            "{".to_owned(),
            400,
            "AdmissionReview of admission.k8s.io/v1",
        ),
        (
            post(),
            review(&|r| r["apiVersion"] = json!("admission.k8s.io/v1beta1")),
            400,
            "v1beta1",
        ),
        (
            post(),
            review(&|r| r["kind"] = json!("ConversionReview")),
            400,
            "ConversionReview",
        ),
        (
            post(),
            review(&|r| r["request"] = Value::Null),
            400,
            "AdmissionReview",
        ),
        (
            post(),
            review(&|r| r["request"]["uid"] = json!("")),
            400,
            "uid",
        ),
        (plain, whole.clone(), 415, "application/json"),
        (untyped, whole.clone(), 415, "application/json"),
        (http::Request::get("/inject"), String::new(), 405, ""),
        (http::Request::post("/elsewhere"), whole.clone(), 404, ""),
    ] {
        let (found, text) = webhook.send(request, body).await;
        let text = String::from_utf8_lossy(&text);
        assert_eq!(found.as_u16(), status, "{says}: {text}");
        assert!(text.contains(says), "{says}: {text}");
    }
    // And the connection has lived through all that.
    let (status, answer) = webhook.send(post(), whole).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(status.as_u16(), 200, "{answer}");
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(
        answer["response"]["uid"],
        "705ab4f5-6393-11e8-b7cc-42010a800002"
    );
    installed.operator.stop().await;
}
