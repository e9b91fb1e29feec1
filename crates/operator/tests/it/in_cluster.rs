//! The whole operator against a real API server, with the rights of its own ServiceAccount.

use crate::{
    client::{Dial, PATIENCE},
    cluster::{
        CLASS, Cluster, POOL, acked, class, conditions, install_operator, metric, pool, ready, repo,
    },
};
use fairtide_api::names;
use fairtide_operator::lease::Claim;
use fairtide_testkit::{ApiServer, eventually, http_get};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

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
