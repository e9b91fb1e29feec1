//! Certificates that change under load, or while replicas die, at a real API server of their own.

use crate::{
    client::{Https, PATIENCE},
    cluster::{Cluster, metric, pool, ready, wait_for},
    gate::Gate,
    rotating::{
        DAY, Load, TIMINGS, asked, bundles, foreign, hook, mount, namespaces, options,
        patch_secret, rotate, rotated, secret, server, shows, start,
    },
};
use fairtide_api::names;
use fairtide_operator::{
    channel::ca::{Authorities, Authority, secret::CaSecret},
    clock::Clock,
    lease::Claim,
    run::Options,
};
use fairtide_testkit::{TempDir, eventually};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Secret};
use kube::{Api, api::DeleteParams};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

#[tokio::test]
async fn a_whole_rotation_fails_no_admission_and_closes_no_connection() {
    let server = server().await;
    let cluster = Cluster::own(&server).await;
    namespaces(&cluster).await;
    cluster.apply(&pool("by-pod", "llama")).await;
    let vllm = cluster.pod("by-pod", "vllm-0").await;
    let first = start(cluster.operators_client().await, options("one", true)).await;
    wait_for(&first, Claim::is_held).await;
    // The other may write nothing.
    let gate = Gate::counting();
    let client = gate.client(cluster.operators_client().await);
    let second = start(client, options("two", true)).await;
    let hooks = [first.webhook().unwrap(), second.webhook().unwrap()];
    for operator in [&first, &second] {
        ready(operator).await;
    }
    hook(&cluster, hooks).await;
    asked(&cluster).await;
    let old = cluster.ca_pem().await;
    let mut sidecar = cluster.dial(&first, &vllm).await.open().await.unwrap();
    assert_eq!(sidecar.authorities().await.unwrap().1, old);
    let mut kept = Https::connect(hooks[0], &old).await.unwrap();
    let ask = || http::Request::get("/inject");
    assert_eq!(kept.send(ask(), "").await.0.as_u16(), 405);

    let load = Load::start(cluster.client.clone());
    load.more(100).await;
    rotate(&cluster).await;
    let (_, both) = sidecar.authorities().await.unwrap();
    let new = rotated(&cluster, &old).await;
    assert_eq!(both, format!("{old}{new}"), "told before it was used");
    for address in [hooks[0], hooks[1], first.channel(), second.channel()] {
        shows(address, &new).await;
    }
    assert_eq!(bundles(&cluster).await, [both.clone(), both]);
    load.more(100).await;
    // What the old one signed is shown by nobody: from here on API servers trust the new one alone.
    patch_secret(&cluster, json!({"data": {"previous.crt": null}})).await;
    eventually("the old one is forgotten", PATIENCE, async || {
        let bundles = bundles(&cluster).await;
        anyhow::ensure!(bundles == [new.clone(), new.clone()], "{bundles:?}");
        Ok(())
    })
    .await
    .unwrap();
    load.more(200).await;
    let answered = load.end().await;
    assert!(answered >= 400);

    assert_eq!(kept.send(ask(), "").await.0.as_u16(), 405, "still open");
    assert_eq!(sidecar.authorities().await.unwrap().1, new, "still open");
    assert_eq!(gate.writes(), 0, "only the holder of the lease writes");
    let left = metric(
        &second,
        r#"fairtide_operator_certificate_expiry_timestamp_seconds{certificate="ca"}"#,
    );
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    assert!(left.await - now.unwrap().as_secs_f64() > 999.0 * 86_400.0);
    second.stop().await;
    first.stop().await;
}

#[tokio::test]
async fn an_authority_that_is_over_at_the_start_is_replaced() {
    let server = server().await;
    let cluster = Cluster::own(&server).await;
    namespaces(&cluster).await;
    cluster.apply(&pool("by-pod", "llama")).await;
    let vllm = cluster.pod("by-pod", "vllm-0").await;
    let made = SystemTime::now() - TIMINGS.authority - DAY * 100;
    let over = Arc::new(Authority::make(made, TIMINGS.authority).unwrap());
    let old = over.cert().pem.clone();
    CaSecret::new(cluster.operators_client().await, names::SYSTEM_NAMESPACE)
        .create(&Authorities::new(over, None, None))
        .await
        .unwrap();
    // Long enough for a sidecar to come back and hear of the next one.
    let operator = start(cluster.operators_client().await, options("over", true)).await;
    wait_for(&operator, Claim::is_held).await;
    ready(&operator).await;
    hook(&cluster, [operator.webhook().unwrap(); 2]).await;
    asked(&cluster).await;
    let new = rotated(&cluster, &old).await;
    for address in [operator.webhook().unwrap(), operator.channel()] {
        shows(address, &new).await;
    }
    // It is nobody's any more, though sidecars were started with it.
    eventually("the old one is forgotten", PATIENCE, async || {
        anyhow::ensure!(bundles(&cluster).await == [new.clone(), new.clone()]);
        Ok(())
    })
    .await
    .unwrap();
    asked(&cluster).await;
    let mut sidecar = cluster.dial(&operator, &vllm).await.open().await.unwrap();
    assert_eq!(sidecar.authorities().await.unwrap().1, new);
    operator.stop().await;
}

#[tokio::test]
async fn killed_before_any_write_the_next_start_goes_on() {
    let server = server().await;
    let cluster = Cluster::own(&server).await;
    namespaces(&cluster).await;
    hook(&cluster, ["127.0.0.1:1".parse().unwrap(); 2]).await;
    let leases = Api::<Lease>::namespaced(cluster.client.clone(), names::SYSTEM_NAMESPACE);
    let mut first = None;
    let mut lives = 0;
    loop {
        lives += 1;
        assert!(lives < 10, "it doesn't come to an end");
        // One write, and it is dead: as it was about to do the next.
        let gate = Gate::of(1);
        let client = gate.client(cluster.operators_client().await);
        let host = format!("life-{lives}");
        let (kill, killed) = tokio::sync::oneshot::channel::<()>();
        let doomed = std::thread::spawn(move || {
            // A runtime of its own ends with all tasks at once, as a killed process does.
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async move {
                let operator = start(client, options(&host, true)).await;
                killed.await.ok();
                std::mem::forget(operator);
            });
            runtime.shutdown_background();
        });
        let blocked = tokio::select! {
            () = gate.blocked() => true,
            () = finished(&cluster, first.as_deref()) => false,
        };
        kill.send(()).unwrap();
        doomed.join().unwrap();
        let _ = leases
            .delete(names::OPERATOR_LEASE, &DeleteParams::default())
            .await;
        // Whatever was left behind: who shows a certificate is trusted by API servers, once they were
        // told of anything at all.
        let secret = secret(&cluster).await;
        for bundle in bundles(&cluster)
            .await
            .iter()
            .filter(|bundle| !bundle.is_empty())
        {
            assert!(bundle.contains(&secret["ca.crt"]), "life {lives}");
        }
        if first.is_none() {
            first = Some(secret["ca.crt"].clone());
            rotate(&cluster).await;
        }
        if !blocked {
            break;
        }
    }
    // The Secret, the next one, the bundle, and its turn; the bundle once more, if it was faster.
    assert!(lives >= 4, "{lives}");
    let operator = start(cluster.operators_client().await, options("last", true)).await;
    hook(&cluster, [operator.webhook().unwrap(); 2]).await;
    asked(&cluster).await;
    operator.stop().await;
}

/// Waits until the rotation is through.
async fn finished(cluster: &Cluster<'_>, first: Option<&str>) {
    match first {
        Some(first) => {
            rotated(cluster, first).await;
        }
        None => std::future::pending().await,
    }
}

#[tokio::test]
async fn a_clock_that_jumps_ends_with_certificates_that_hold() {
    let server = server().await;
    let cluster = Cluster::own(&server).await;
    let days = Arc::new(AtomicU64::new(0));
    let clock = Clock::new({
        let days = days.clone();
        move || SystemTime::now() + DAY * u32::try_from(days.load(Ordering::Relaxed)).unwrap()
    });
    let options = Options {
        clock,
        ..options("jumps", false)
    };
    let operator = start(cluster.operators_client().await, options).await;
    wait_for(&operator, Claim::is_held).await;
    ready(&operator).await;
    // Forwards three times, over the end of the first one, and back to where it began.
    for at in [400, 800, 1_200, 0] {
        days.store(at, Ordering::Relaxed);
        let now = SystemTime::now() + DAY * u32::try_from(at).unwrap();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let seconds = seconds.as_secs_f64();
        eventually("certificates that hold", PATIENCE, async || {
            let secret = CaSecret::new(cluster.client.clone(), names::SYSTEM_NAMESPACE);
            let stored = secret.read().await?.expect("a Secret");
            let life = stored.authorities.current.life();
            anyhow::ensure!(life.holds(now), "day {at}: {life:?}");
            let series =
                r#"fairtide_operator_certificate_expiry_timestamp_seconds{certificate="channel"}"#;
            let left = (metric(&operator, series).await - seconds) / 86_400.0;
            anyhow::ensure!((20.0..=30.1).contains(&left), "day {at}: {left} days");
            Ok(())
        })
        .await
        .unwrap();
    }
    operator.stop().await;
}

#[tokio::test]
async fn a_secret_that_is_deleted_comes_back_as_it_was() {
    let server = server().await;
    let cluster = Cluster::own(&server).await;
    let operator = start(cluster.operators_client().await, options("again", false)).await;
    ready(&operator).await;
    let before = secret(&cluster).await;
    let secrets = Api::<Secret>::namespaced(cluster.client.clone(), names::SYSTEM_NAMESPACE);
    let name = names::CHANNEL_CA_SECRET;
    secrets
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    eventually("the Secret is back", PATIENCE, async || {
        anyhow::ensure!(secrets.get_opt(name).await?.is_some());
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(secret(&cluster).await, before);
    operator.stop().await;
}

#[tokio::test]
async fn a_certificate_from_files_is_followed_and_its_authority_known_first() {
    let server = server().await;
    let cluster = Cluster::own(&server).await;
    namespaces(&cluster).await;
    let dir = TempDir::new("certs").unwrap();
    let (first, second) = (foreign(), foreign());
    mount(dir.path(), "..1", &first);
    let mut options = options("files", true);
    if let Some(webhook) = &mut options.webhook {
        webhook.cert_dir = Some(dir.path().to_owned());
    }
    let operator = start(cluster.operators_client().await, options).await;
    wait_for(&operator, Claim::is_held).await;
    ready(&operator).await;
    let address = operator.webhook().unwrap();
    hook(&cluster, [address; 2]).await;
    asked(&cluster).await;
    assert_eq!(
        bundles(&cluster).await,
        [first.ca.clone(), first.ca.clone()]
    );

    let load = Load::start(cluster.client.clone());
    load.more(50).await;
    // Half of a version is no version.
    std::fs::write(dir.path().join("..1/tls.key"), &second.key).unwrap();
    load.more(50).await;
    shows(address, &first.ca).await;
    mount(dir.path(), "..2", &second);
    shows(address, &second.ca).await;
    let both = format!("{}{}", first.ca, second.ca);
    assert_eq!(bundles(&cluster).await, [both.clone(), both]);
    load.more(50).await;
    load.end().await;

    // The channel has the operator's own.
    shows(operator.channel(), &cluster.ca_pem().await).await;
    operator.stop().await;
}
