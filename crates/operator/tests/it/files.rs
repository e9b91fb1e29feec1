//! The whole operator, working from files.

use crate::client::{Dial, PATIENCE, key};
use fairtide_operator::{
    fleet::Progress,
    lease::Timings,
    run::{Files, Operator, Options, Source, StartError},
};
use fairtide_testkit::{TempDir, eventually, http_get};
use serde_json::Value;
use std::path::PathBuf;

const TOKEN: &str = "a token of thirty-two characters";

/// A folder with manifests, token and CA.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            dir: TempDir::new("files").unwrap(),
        };
        std::fs::create_dir(place.manifests()).unwrap();
        place.dir.write("token", format!("{TOKEN}\n")).unwrap();
        place
    }

    fn manifests(&self) -> PathBuf {
        self.dir.path().join("manifests")
    }

    /// Replaces a file as careful editors do, and as ConfigMaps are.
    fn write(&self, name: &str, text: &str) {
        let new = self.dir.write("new", text).unwrap();
        std::fs::rename(new, self.manifests().join(name)).unwrap();
    }

    fn ca_pem(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("ca/ca.crt")).unwrap()
    }

    async fn start(&self) -> Result<Operator, StartError> {
        let source = Source::Files(Files {
            dir: self.manifests(),
            token_file: self.dir.path().join("token"),
            ca_dir: self.dir.path().join("ca"),
        });
        let any = "127.0.0.1:0".parse().unwrap();
        let options = Options {
            channel: any,
            admin: any,
            namespace: "fairtide-system".to_owned(),
            ca_copy: None,
            names: vec!["sidecar.test".to_owned()],
            advertise: None,
            host: "test".to_owned(),
            lease: Timings::default(),
            timings: Default::default(),
            clock: Default::default(),
            webhook: None,
        };
        Operator::start(source, options).await
    }

    fn dial(&self, operator: &Operator, pod: &str) -> Dial {
        Dial::new(operator.channel(), &self.ca_pem(), TOKEN, pod)
    }
}

fn pool(max_requests: u32) -> String {
    format!(
        "{{apiVersion: traffic.fairtide.dev/v1alpha1, kind: InferencePool,
          metadata: {{name: llama, namespace: chat}},
          spec: {{selector: {{matchLabels: {{app: vllm}}}}, targetPorts: [{{number: 8000}}],
            limiter: {{mode: Fixed, fixed: {{maxRequests: {max_requests}}}}}}}}}\n"
    )
}

fn pods(names: &[&str]) -> String {
    let pod = |name: &&str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: chat, labels: {{app: vllm}}}}}}\n"
        )
    };
    names.iter().map(pod).collect()
}

async fn until(operator: &Operator, pod: &str, holds: impl Fn(&Progress) -> bool) {
    eventually("a sidecar's answer", PATIENCE, async || {
        let progress = operator.fleet().progress_of(&key(pod));
        anyhow::ensure!(holds(&progress), "{progress:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_edited_file_reaches_the_sidecar() {
    let place = Place::new();
    place.write("pool.yaml", &pool(8));
    place.write("pods.yaml", &pods(&["vllm-0"]));
    let operator = place.start().await.unwrap();
    let mut sidecar = place.dial(&operator, "chat/vllm-0").open().await.unwrap();
    assert_eq!(sidecar.obey().await.1.limiter.max_requests, Some(8));
    place.write("pool.yaml", &pool(9));
    let (version, policy) = sidecar.obey().await;
    assert_eq!(policy.limiter.max_requests, Some(9));
    until(&operator, "chat/vllm-0", |p| {
        p.acked.as_deref() == Some(version.as_str())
    })
    .await;
    operator.stop().await;
    sidecar.closed().await;
}

#[tokio::test]
async fn a_broken_edit_leaves_the_last_good_policy_in_force() {
    let place = Place::new();
    let good = pool(8) + &pods(&["vllm-0"]);
    place.write("all.yaml", &good);
    let operator = place.start().await.unwrap();
    let mut old = place.dial(&operator, "chat/vllm-0").open().await.unwrap();
    old.obey().await;
    let edits = [
        "kind: [".to_owned(),
        good.replace("maxRequests", "maxRequest"),
        good.replace("maxRequests: 8", "maxRequests: -1"),
    ];
    for (n, broken) in edits.iter().enumerate() {
        place.write("all.yaml", broken);
        // A pod of another file shows that the broken one was read.
        let pod = format!("new-{n}");
        place.write(&format!("{pod}.yaml"), &pods(&[&pod]));
        let dial = place.dial(&operator, &format!("chat/{pod}"));
        let mut new = dial.open().await.unwrap();
        assert_eq!(new.obey().await.1.limiter.max_requests, Some(8));
    }
    place.write(
        "all.yaml",
        &good.replace("maxRequests: 8", "maxRequests: 7"),
    );
    // The first that the old one hears of all this.
    assert_eq!(old.obey().await.1.limiter.max_requests, Some(7));
}

#[tokio::test]
async fn a_pod_that_is_added_later_gets_its_policy() {
    let place = Place::new();
    place.write("pool.yaml", &pool(8));
    let operator = place.start().await.unwrap();
    let dial = place.dial(&operator, "chat/vllm-7");
    let opening = tokio::spawn(async move { dial.open().await });
    place.write("pods.yaml", &pods(&["vllm-7"]));
    let mut sidecar = opening.await.unwrap().unwrap();
    assert_eq!(sidecar.obey().await.1.pool.name, "llama");
}

#[tokio::test]
async fn a_wrong_token_opens_nothing_and_a_changed_one_counts_at_once() {
    let place = Place::new();
    place.write("all.yaml", &(pool(8) + &pods(&["vllm-0"])));
    let operator = place.start().await.unwrap();
    let right = place.dial(&operator, "chat/vllm-0");
    let wrong = Dial {
        token: Some("another".to_owned()),
        ..right.clone()
    };
    let refused = wrong.open().await.err().expect("a refusal");
    assert_eq!(refused.status.as_u16(), 401);
    assert!(refused.error.contains("--channel-token"), "{refused:?}");
    right.open().await.unwrap();
    place.dir.write("token", "another").unwrap();
    wrong.open().await.unwrap();
    assert_eq!(right.open().await.err().unwrap().status.as_u16(), 401);
}

#[tokio::test]
async fn a_restarted_operator_is_trusted_as_before() {
    let place = Place::new();
    place.write("all.yaml", &(pool(8) + &pods(&["vllm-0"])));
    let first = place.start().await.unwrap();
    let ca_pem = place.ca_pem();
    let mut sidecar = place.dial(&first, "chat/vllm-0").open().await.unwrap();
    let (before, _) = sidecar.obey().await;
    first.stop().await;
    let second = place.start().await.unwrap();
    let dial = Dial::new(second.channel(), &ca_pem, TOKEN, "chat/vllm-0");
    let dial = Dial {
        server_name: "sidecar.test".to_owned(),
        ..dial
    };
    // The same content has the same version.
    assert_eq!(dial.open().await.unwrap().obey().await.0, before);
}

#[tokio::test]
async fn the_key_of_the_ca_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.start().await.unwrap();
    let key = std::fs::metadata(place.dir.path().join("ca/ca.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn the_admin_server_says_how_far_each_pod_is() {
    let place = Place::new();
    place.write("all.yaml", &(pool(8) + &pods(&["vllm-0", "vllm-1"])));
    let operator = place.start().await.unwrap();
    let admin = operator.admin().to_string();
    let mut sidecar = place.dial(&operator, "chat/vllm-0").open().await.unwrap();
    let (version, _) = sidecar.snapshot().await.unwrap();
    sidecar.nack(&version, "not today");
    eventually("the refusal", PATIENCE, async || {
        let (_, body) = http_get(&admin, "/debug/pods").await?;
        let pods: Value = serde_json::from_slice(&body)?;
        anyhow::ensure!(pods[0]["refused"]["reason"] == "not today", "{pods}");
        anyhow::ensure!(pods[0]["wanted"] == version, "{pods}");
        anyhow::ensure!(pods[1]["connected"] == false, "{pods}");
        Ok(())
    })
    .await
    .unwrap();
    let (status, _) = http_get(&admin, "/readyz").await.unwrap();
    assert_eq!(status.as_u16(), 200);
    let (_, page) = http_get(&admin, "/metrics").await.unwrap();
    let page = String::from_utf8(page.to_vec()).unwrap();
    for line in [
        "fairtide_operator_nacks_total 1",
        "fairtide_operator_pods_known 2",
        "fairtide_operator_pods_connected 1",
        "fairtide_operator_lease_held 1",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
}

#[tokio::test]
async fn what_is_missing_is_said_at_the_start() {
    let place = Place::new();
    place.dir.write("token", "  \n").unwrap();
    let error = place.start().await.err().expect("no token");
    assert!(matches!(error, StartError::Token { .. }), "{error:?}");
    place.dir.write("token", TOKEN).unwrap();
    std::fs::remove_dir(place.manifests()).unwrap();
    let error = place.start().await.err().expect("no manifests");
    assert!(matches!(error, StartError::Manifests(_)), "{error:?}");
}
