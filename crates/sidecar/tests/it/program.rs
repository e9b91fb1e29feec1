//! The program itself: flags, signals, logs.

use crate::support::{CHAT, Client, DEADLINE, ONE_SEAT, class, pool};
use anyhow::{Context, ensure};
use fairtide_testkit::{Process, ScriptedEngine, Spawn, TempDir, eventually, free_port, http_get};
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

struct Started {
    process: Process,
    engine: ScriptedEngine,
    address: std::net::SocketAddr,
    admin: String,
    _folder: TempDir,
}

fn program(folder: &TempDir) -> Spawn {
    let log = folder.path().join("log");
    Spawn::new(env!("CARGO_BIN_EXE_fairtide-sidecar"), log)
}

async fn start(extra: &[&str], pool_spec: &str) -> anyhow::Result<Started> {
    let folder = TempDir::new("program")?;
    folder.write("pool.yaml", pool(pool_spec))?;
    let bulk = "tier: Batch\nmatch: [{model: {value: bulk}}]";
    folder.write("bulk.yaml", class("bulk", bulk))?;
    let engine = ScriptedEngine::start().await?;
    let (listen, admin) = (free_port()?, free_port()?);
    let admin = format!("127.0.0.1:{admin}");
    let mut process = program(&folder)
        .args([
            "--listen",
            &format!("127.0.0.1:{listen}"),
            "--admin",
            &admin,
        ])
        .args(["--upstream", &engine.address().to_string()])
        .args([
            "--manifests".as_ref(),
            folder.path().as_os_str(),
            "--pool".as_ref(),
            "chat/llama".as_ref(),
        ])
        .args(extra)
        .start()?;
    process.ready(&admin, "/readyz", DEADLINE).await?;
    Ok(Started {
        process,
        engine,
        address: ([127, 0, 0, 1], listen).into(),
        admin,
        _folder: folder,
    })
}

#[tokio::test]
async fn told_to_go_it_finishes_what_is_there_and_takes_nothing_new() -> anyhow::Result<()> {
    let mut started = start(&[], ONE_SEAT).await?;
    let ask = |body: &'static str| async move {
        let mut client = Client::http1(started.address).await?;
        let (parts, rest) = client.post(CHAT, &[], body).await?.into_parts();
        anyhow::Ok((parts, rest.collect().await?.to_bytes()))
    };
    let running = tokio::spawn(ask("running"));
    let first = started.engine.next(DEADLINE).await?;
    let queued = tokio::spawn(ask("queued"));
    let mut uploading = tokio::net::TcpStream::connect(started.address).await?;
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nha");
    uploading.write_all(head.as_bytes()).await?;
    let admin = started.admin.clone();
    eventually("one is queued and one is read", DEADLINE, async || {
        let (_, page) = http_get(&admin, "/metrics").await?;
        let page = String::from_utf8(page.to_vec())?;
        ensure!(page.contains("fairtide_sidecar_queued{class=\"_default\"} 1"));
        ensure!(page.contains("fairtide_sidecar_body_bytes 8\n"));
        Ok(())
    })
    .await?;

    started.process.signal("TERM")?;
    eventually("it is not ready any more", DEADLINE, async || {
        let (status, text) = http_get(&admin, "/readyz").await?;
        ensure!(status == StatusCode::SERVICE_UNAVAILABLE);
        ensure!(text.starts_with(b"not ready: draining"), "{text:?}");
        Ok(())
    })
    .await?;
    let (parts, _) = ask("late").await?;
    assert_eq!(parts.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(parts.headers["x-fairtide-outcome"], "draining");
    assert!(parts.headers.contains_key("retry-after"));
    uploading.write_all(b"lf").await?;
    let mut text = String::new();
    uploading.read_to_string(&mut text).await?;
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    assert!(text.contains("x-fairtide-outcome: draining"), "{text}");

    first.answer(StatusCode::OK, "{}");
    started
        .engine
        .next(DEADLINE)
        .await?
        .answer(StatusCode::OK, "{}");
    assert_eq!(running.await??.0.status, StatusCode::OK);
    assert_eq!(queued.await??.0.status, StatusCode::OK);
    assert_eq!(started.process.wait(DEADLINE).await?, 0);
    Ok(())
}

#[tokio::test]
async fn what_does_not_end_in_the_drain_time_is_cut_off() -> anyhow::Result<()> {
    let mut started = start(&["--drain-seconds", "1"], "").await?;
    let mut client = Client::http1(started.address).await?;
    let request = client.request(http::Method::POST, CHAT, &[], "{}")?;
    let answer = tokio::spawn(async move { client.send(request).await });
    let call = started.engine.next(DEADLINE).await?;
    started.process.signal("TERM")?;
    assert_eq!(started.process.wait(DEADLINE).await?, 0);
    let answer = answer.await??;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()["x-fairtide-outcome"], "draining");
    call.gone(DEADLINE).await
}

#[tokio::test]
async fn a_key_is_never_shown() -> anyhow::Result<()> {
    let tenancy = "tenancy:\n  sources: [{type: Header, header: {name: x-team}}, {type: APIKey}]\n  \
                   trustedCIDRs: [127.0.0.0/8]\n  fallbackTenant: nobody";
    let mut started = start(&["--log-level", "debug"], tenancy).await?;
    let secrets = [
        "sk-very-secret-1",
        "sk-very-secret-2",
        "team-secret-3",
        "prompt-secret-4",
    ];
    let requests: [(&str, String); 3] = [
        ("authorization", format!("Bearer {}", secrets[0])),
        ("x-api-key", secrets[1].to_owned()),
        ("x-team", secrets[2].to_owned()),
    ];
    for (name, value) in &requests {
        let mut client = Client::http1(started.address).await?;
        let request = client.request(http::Method::POST, CHAT, &[(name, value)], secrets[3])?;
        let answer = tokio::spawn(async move { client.send(request).await.map(|_| ()) });
        let call = started.engine.next(DEADLINE).await?;
        ensure!(
            call.head.headers[*name] == value.as_str(),
            "the engine gets it"
        );
        call.answer(StatusCode::OK, "{}");
        answer.await??;
    }
    let mut shown = String::new();
    for page in ["/metrics", "/debug/state", "/debug/decisions"] {
        let (_, text) = http_get(&started.admin, page).await?;
        shown += std::str::from_utf8(&text)?;
    }
    started.process.line("request ended", DEADLINE).await?;
    started.process.signal("TERM")?;
    started.process.wait(DEADLINE).await?;
    shown += &started.process.log();
    assert!(
        shown.contains("request ended") && shown.contains("requestId"),
        "both are there"
    );
    for secret in secrets {
        assert!(!shown.contains(secret), "{secret} is shown");
    }
    Ok(())
}

#[tokio::test]
async fn a_listener_that_cannot_be_had_ends_the_program() -> anyhow::Result<()> {
    let folder = TempDir::new("listener")?;
    folder.write("pool.yaml", pool(""))?;
    let holder = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let taken = holder.local_addr()?.to_string();
    let free = format!("127.0.0.1:{}", free_port()?);
    for (listen, admin) in [(format!("{free},{taken}"), free_port()?), (free.clone(), 0)] {
        let admin = match admin {
            0 => taken.clone(),
            port => format!("127.0.0.1:{port}"),
        };
        let mut process = program(&folder)
            .args([
                "--listen",
                &listen,
                "--admin",
                &admin,
                "--upstream",
                "127.0.0.1:1",
            ])
            .args(["--pool", "chat/llama", "--manifests"])
            .args([folder.path()])
            .start()?;
        assert_eq!(process.wait(DEADLINE).await?, 1);
        ensure!(process.log().contains(&taken), "{}", process.log());
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_flag_or_folder_ends_with_64_and_one_line() -> anyhow::Result<()> {
    let folder = TempDir::new("flags")?;
    folder.write("pool.yaml", pool("limiter: {mode: Fixed}"))?;
    let path = folder.path().to_string_lossy().into_owned();
    let base = ["--listen=127.0.0.1:0", "--admin=127.0.0.1:0"];
    let cases: [(&[&str], &str); 5] = [
        (&["--upstream=here"], "HOST:PORT"),
        (&["--upstream=h:1", "--pool=chat/llama"], "--manifests"),
        (
            &[
                "--upstream=h:1",
                "--pool=chat/llama",
                "--manifests=/no/such",
            ],
            "/no/such",
        ),
        (
            &["--upstream=h:1", "--pool=chat/other", "--manifests", &path],
            "chat/other",
        ),
        (
            &["--upstream=h:1", "--pool=chat/llama", "--manifests", &path],
            "limiter",
        ),
    ];
    for (args, says) in cases {
        std::fs::write(folder.path().join("log"), "")?;
        let mut process = program(&folder).args(base).args(args).start()?;
        assert_eq!(process.wait(DEADLINE).await?, 64, "{args:?}");
        let log = process.log();
        let last = log.lines().last().context("a line")?;
        assert!(last.contains(says), "{args:?}: {log}");
        assert_eq!(log.lines().count(), 1, "{args:?}: {log}");
    }
    Ok(())
}
