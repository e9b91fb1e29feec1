//! The channel alone: pods and policies are set by the test.

use crate::client::{Dial, PATIENCE, key};
use fairtide_operator::{
    channel::{
        Channel,
        auth::{AuthError, Identity, Tokens},
        ca::{Authorities, Authority, dir},
        tls::{Making, Purpose, ServerTls},
    },
    clock::Clock,
    fleet::{Fleet, Progress, Push},
    lease::Claim,
    metrics::Metrics,
};
use fairtide_policy::{ClassReport, Message, PROTOCOL_VERSION, Policy, Report};
use fairtide_testkit::{TempDir, eventually};
use futures::future::BoxFuture;
use http::StatusCode;
use prometheus_client::registry::Registry;
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{net::TcpListener, sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// The token of pod `ns/name` is `ns/name#uid`; `shared` is everybody's.
struct SpokenTokens;

impl Tokens for SpokenTokens {
    fn identify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Identity, AuthError>> {
        Box::pin(async move {
            match token.split_once('#') {
                Some((pod, uid)) => Ok(Identity::Pod {
                    pod: key(pod),
                    uid: uid.to_owned(),
                }),
                None if token == "shared" => Ok(Identity::Shared),
                None if token == "unbound" => Err(AuthError::NoPod("alice".to_owned())),
                None => Err(AuthError::Invalid("no such token".to_owned())),
            }
        })
    }
}

struct Server {
    fleet: Arc<Fleet>,
    claim: watch::Sender<Claim>,
    authorities: watch::Sender<Arc<Authorities>>,
    stop: CancellationToken,
    address: SocketAddr,
    ca_pem: String,
    _dir: TempDir,
}

impl Server {
    async fn start() -> Self {
        let dir = TempDir::new("channel").unwrap();
        let found = dir::open(dir.path(), SystemTime::now()).unwrap();
        let ca_pem = found.trust().pem.clone();
        let (authorities, published) = watch::channel(Arc::new(found));
        let making = Making {
            authorities: published.clone(),
            names: vec!["localhost".to_owned()],
            life: Duration::from_secs(3_600),
            clock: Clock::default(),
        };
        let tls = ServerTls::new(Purpose::Channel, making).unwrap();
        let metrics = Arc::new(Metrics::register(&mut Registry::default()));
        let fleet = Fleet::new(Arc::default(), metrics.clone());
        let (claim, held) = watch::channel(Claim::Held);
        let stop = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let channel = Arc::new(Channel {
            fleet: fleet.clone(),
            tokens: Arc::new(SpokenTokens),
            claim: held,
            authorities: published,
            metrics,
            stop: stop.clone(),
        });
        tokio::spawn(channel.serve(listener, tls.config().unwrap()));
        Self {
            fleet,
            claim,
            authorities,
            stop,
            address,
            ca_pem,
            _dir: dir,
        }
    }

    fn set(&self, pod: &str, uid: &str, policy: Option<Policy>) -> Option<String> {
        let push = policy.map(|policy| Arc::new(Push::new(policy, Instant::now())));
        self.fleet.set(&key(pod), Some(&uid.into()), push.as_ref());
        push.map(|push| push.version.clone())
    }

    fn dial(&self, pod: &str, uid: &str) -> Dial {
        Dial::new(self.address, &self.ca_pem, &format!("{pod}#{uid}"), pod)
    }

    fn progress(&self, pod: &str) -> Progress {
        self.fleet.progress().remove(&key(pod)).unwrap_or_default()
    }

    async fn until(&self, what: &str, pod: &str, holds: impl Fn(&Progress) -> bool) {
        eventually(what, PATIENCE, async || {
            let progress = self.progress(pod);
            anyhow::ensure!(holds(&progress), "{progress:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn policy(weight: u32) -> Policy {
    serde_json::from_value(serde_json::json!({
        "pool": { "namespace": "a", "name": "pool" },
        "defaultClass": "chat",
        "classes": [{
            "name": "chat", "tier": "Interactive", "priority": 100, "weight": weight,
            "minShare": 0, "queue": { "ttlMs": 10_000 }
        }]
    }))
    .unwrap()
}

#[tokio::test]
async fn a_sidecar_gets_its_policy_at_once_and_each_later_one() {
    let server = Server::start().await;
    let first = server.set("a/vllm-0", "u0", Some(policy(1))).unwrap();
    let mut sidecar = server.dial("a/vllm-0", "u0").open().await.unwrap();
    let (version, got) = sidecar.obey().await;
    assert_eq!((version, got), (first.clone(), policy(1)));
    server
        .until("ack", "a/vllm-0", |p| p.acked.as_deref() == Some(&first))
        .await;
    let second = server.set("a/vllm-0", "u0", Some(policy(2))).unwrap();
    assert_eq!(sidecar.obey().await, (second.clone(), policy(2)));
    server
        .until("ack", "a/vllm-0", |p| p.acked.as_deref() == Some(&second))
        .await;
}

#[tokio::test]
async fn a_refused_policy_is_recorded_with_its_reason_until_a_later_one_is_in_force() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", Some(policy(1)));
    let mut sidecar = server.dial("a/vllm-0", "u0").open().await.unwrap();
    let (first, _) = sidecar.obey().await;
    server.set("a/vllm-0", "u0", Some(policy(2)));
    let (second, _) = sidecar.snapshot().await.unwrap();
    sidecar.nack(&second, &"weight is odd ".repeat(100));
    server
        .until("nack", "a/vllm-0", |p| {
            p.nacked.as_ref().is_some_and(|nack| {
                nack.version.as_ref() == second && nack.reason.starts_with("weight is odd")
            })
        })
        .await;
    let progress = server.progress("a/vllm-0");
    assert_eq!(progress.acked.as_deref(), Some(first.as_str()));
    assert!(progress.nacked.unwrap().reason.len() < 1_000);
    server.set("a/vllm-0", "u0", Some(policy(3)));
    sidecar.obey().await;
    server
        .until("ack", "a/vllm-0", |p| p.nacked.is_none())
        .await;
}

#[tokio::test]
async fn a_report_is_kept() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", Some(policy(1)));
    let sidecar = server.dial("a/vllm-0", "u0").open().await.unwrap();
    let report = Report {
        in_flight: 3,
        classes: vec![ClassReport {
            name: "chat".to_owned(),
            queued: 7,
            ..ClassReport::default()
        }],
        ..Report::default()
    };
    sidecar.send(Message::Report {
        v: PROTOCOL_VERSION,
        report: report.clone(),
    });
    server
        .until("report", "a/vllm-0", |p| {
            p.report.as_deref() == Some(&report)
        })
        .await;
}

#[tokio::test]
async fn a_sidecar_that_leaves_is_no_longer_connected() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", Some(policy(1)));
    let sidecar = server.dial("a/vllm-0", "u0").open().await.unwrap();
    assert!(server.progress("a/vllm-0").connected);
    drop(sidecar);
    server
        .until("disconnect", "a/vllm-0", |p| !p.connected)
        .await;
}

#[tokio::test]
async fn bad_tokens_open_nothing_and_are_told_why() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", Some(policy(1)));
    let dial = |token: Option<&str>, pod: &str| Dial {
        token: token.map(str::to_owned),
        ..server.dial(pod, "u0")
    };
    let cases = [
        (dial(None, "a/vllm-0"), 401, "authorization: Bearer"),
        (
            dial(Some("wrong"), "a/vllm-0"),
            401,
            "audience fairtide.dev",
        ),
        (dial(Some("unbound"), "a/vllm-0"), 403, "not bound to a pod"),
        (dial(Some("a/vllm-1#u1"), "a/vllm-0"), 403, "a/vllm-1"),
        (dial(Some("b/vllm-0#u0"), "a/vllm-0"), 403, "b/vllm-0"),
    ];
    for (dial, status, word) in cases {
        let refused = dial.open().await.err().expect("a refusal");
        assert_eq!(refused.status.as_u16(), status, "{refused:?}");
        assert!(refused.error.contains(word), "{refused:?}");
    }
    assert!(!server.progress("a/vllm-0").connected);
}

#[tokio::test]
async fn a_first_line_that_is_no_hello_is_refused() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", Some(policy(1)));
    let dial = server.dial("a/vllm-0", "u0");
    let ack = Message::Ack {
        v: PROTOCOL_VERSION,
        version: "x".to_owned(),
    };
    let refused = dial.open_with(ack).await.err().expect("a refusal");
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let newer = Message::Hello {
        v: PROTOCOL_VERSION + 1,
        pod: "a/vllm-0".to_owned(),
        sidecar_version: "9".to_owned(),
        applied: None,
    };
    let refused = dial.open_with(newer).await.err().expect("a refusal");
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(
        refused.error.contains("upgrade the operator"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_pod_that_becomes_known_a_moment_later_is_served() {
    let server = Server::start().await;
    let dial = server.dial("a/vllm-0", "u0");
    let opening = tokio::spawn(async move { dial.open().await });
    // The same name with another uid is not yet it.
    server.set("a/vllm-0", "earlier", Some(policy(1)));
    server.set("a/vllm-0", "u0", Some(policy(2)));
    let mut sidecar = opening.await.unwrap().unwrap();
    assert_eq!(sidecar.obey().await.1, policy(2));
}

#[tokio::test]
async fn pods_that_stay_unknown_are_refused() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", Some(policy(1)));
    let (unknown, earlier) = (server.dial("a/vllm-9", "u9"), server.dial("a/vllm-0", "u9"));
    let (unknown, earlier) = tokio::join!(unknown.open(), earlier.open());
    let unknown = unknown.err().expect("a refusal");
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert!(unknown.error.contains("a/vllm-9"), "{unknown:?}");
    assert_eq!(
        earlier.err().expect("a refusal").status,
        StatusCode::FORBIDDEN
    );
}

#[tokio::test]
async fn a_newer_channel_of_a_pod_replaces_the_older() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", Some(policy(1)));
    let mut older = server.dial("a/vllm-0", "u0").open().await.unwrap();
    older.obey().await;
    let mut newer = server.dial("a/vllm-0", "u0").open().await.unwrap();
    let (version, _) = newer.obey().await;
    older.closed().await;
    server
        .until("ack", "a/vllm-0", |p| {
            p.connected && p.acked.as_deref() == Some(&version)
        })
        .await;
    server.set("a/vllm-0", "u0", Some(policy(2)));
    assert_eq!(newer.obey().await.1, policy(2));
}

#[tokio::test]
async fn a_pod_without_a_pool_keeps_what_it_has() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", None);
    let mut sidecar = server.dial("a/vllm-0", "u0").open().await.unwrap();
    assert!(sidecar.silent_for(Duration::from_millis(100)).await);
    server.set("a/vllm-0", "u0", Some(policy(1)));
    assert_eq!(sidecar.obey().await.1, policy(1));
    server.set("a/vllm-0", "u0", None);
    server.set("a/vllm-0", "u0", Some(policy(2)));
    assert_eq!(sidecar.obey().await.1, policy(2));
}

#[tokio::test]
async fn the_channel_of_a_deleted_pod_is_closed() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", Some(policy(1)));
    let mut gone = server.dial("a/vllm-0", "u0").open().await.unwrap();
    gone.obey().await;
    server.fleet.remove(&key("a/vllm-0"));
    gone.closed().await;
}

/// A policy of about 40 KiB, so that a few of them fill every buffer on the way.
fn big_policy(weight: u32) -> Policy {
    let mut big = policy(weight);
    let class = big.classes[0].clone();
    big.classes = (0..200)
        .map(|n| fairtide_policy::Class {
            name: format!("class-{n}-{}", "x".repeat(100)),
            ..class.clone()
        })
        .collect();
    big.default_class = big.classes[0].name.clone();
    big
}

#[tokio::test]
async fn a_slow_sidecar_holds_up_nobody_and_gets_only_the_last_policy() {
    let server = Server::start().await;
    server.set("a/fast", "u0", Some(big_policy(1)));
    server.set("a/slow", "u1", Some(big_policy(1)));
    let mut fast = server.dial("a/fast", "u0").open().await.unwrap();
    let slow = Dial {
        window: Some(1_024),
        ..server.dial("a/slow", "u1")
    };
    let mut slow = slow.open().await.unwrap();
    fast.obey().await;
    let mut last = String::new();
    for weight in 2..50 {
        let push = Arc::new(Push::new(big_policy(weight), Instant::now()));
        server
            .fleet
            .set(&key("a/fast"), Some(&"u0".into()), Some(&push));
        server
            .fleet
            .set(&key("a/slow"), Some(&"u1".into()), Some(&push));
        last = fast.obey().await.0;
        assert_eq!(last, push.version);
    }
    let mut got = 0;
    while slow.obey().await.0 != last {
        got += 1;
        assert!(got < 10, "stale policies are queued for a slow reader");
    }
}

#[tokio::test]
async fn a_sidecar_that_never_reads_is_cut() {
    let server = Server::start().await;
    server.set("a/slow", "u1", Some(big_policy(1)));
    let dial = Dial {
        window: Some(1_024),
        ..server.dial("a/slow", "u1")
    };
    let _unread = dial.open().await.unwrap();
    let mut weight = 1;
    // The connection's own buffers take a few.
    eventually("cut", PATIENCE, async || {
        weight += 1;
        server.set("a/slow", "u1", Some(big_policy(weight)));
        anyhow::ensure!(!server.progress("a/slow").connected);
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_replica_without_the_lease_points_to_the_holder() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", Some(policy(1)));
    let mut open = server.dial("a/vllm-0", "u0").open().await.unwrap();
    open.obey().await;
    server.claim.send_replace(Claim::Other {
        identity: "other".to_owned(),
        address: Some("https://10.0.0.7:8443".to_owned()),
    });
    open.closed().await;
    let refused = server.dial("a/vllm-0", "u0").open().await.err().unwrap();
    assert_eq!(refused.status, StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(
        refused.location.as_deref(),
        Some("https://10.0.0.7:8443/v1/channel")
    );
}

#[tokio::test]
async fn a_replica_that_lost_touch_keeps_its_channels_but_pushes_nothing() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", Some(policy(1)));
    let mut sidecar = server.dial("a/vllm-0", "u0").open().await.unwrap();
    sidecar.obey().await;
    server.claim.send_replace(Claim::Unknown);
    server.set("a/vllm-0", "u0", Some(policy(2)));
    assert!(sidecar.silent_for(Duration::from_millis(100)).await);
    let refused = server.dial("a/vllm-0", "u0").open().await.err().unwrap();
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    server.claim.send_replace(Claim::Held);
    assert_eq!(sidecar.obey().await.1, policy(2));
}

#[tokio::test]
async fn channels_end_cleanly_with_the_operator() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", Some(policy(1)));
    let mut sidecar = server.dial("a/vllm-0", "u0").open().await.unwrap();
    sidecar.obey().await;
    server.stop.cancel();
    sidecar.closed().await;
}

#[tokio::test]
async fn sidecars_are_told_whom_to_trust_and_are_waited_for() {
    let server = Server::start().await;
    server.set("a/vllm-0", "u0", Some(policy(1)));
    server.set("a/vllm-1", "u1", Some(policy(1)));
    let mut sidecar = server.dial("a/vllm-0", "u0").open().await.unwrap();
    let (first, pem) = sidecar.authorities().await.unwrap();
    assert_eq!(pem, server.ca_pem);
    // The second is of a version that knows nothing of authorities.
    let mut older = server.dial("a/vllm-1", "u1").open().await.unwrap();
    older.obey().await;
    eventually("one is waited for", PATIENCE, async || {
        let waited_for = server.fleet.not_trusting(&first);
        anyhow::ensure!(waited_for == [key("a/vllm-1")], "{waited_for:?}");
        Ok(())
    })
    .await
    .unwrap();

    let current = server.authorities.borrow().current.clone();
    let next = Authority::make(SystemTime::now(), Duration::from_secs(3_600)).unwrap();
    let both = Arc::new(Authorities::new(current, Some(Arc::new(next)), None));
    let next = both.trust().clone();
    server.authorities.send_replace(both);
    let (second, pem) = sidecar.authorities().await.unwrap();
    assert_eq!((&second, &pem), (&next.version, &next.pem));
    eventually("the older one is waited for", PATIENCE, async || {
        let waited_for = server.fleet.not_trusting(&second);
        anyhow::ensure!(waited_for == [key("a/vllm-1")], "{waited_for:?}");
        Ok(())
    })
    .await
    .unwrap();
    drop(older);
    eventually("nobody is waited for", PATIENCE, async || {
        let waited_for = server.fleet.not_trusting(&second);
        anyhow::ensure!(waited_for.is_empty(), "{waited_for:?}");
        Ok(())
    })
    .await
    .unwrap();
    // What it says of a later version of ours is no fault.
    sidecar.send(Message::Unknown);
    server.set("a/vllm-0", "u0", Some(policy(2)));
    sidecar.obey().await;
}
