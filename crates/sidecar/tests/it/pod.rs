//! The program in a pod as injection writes it: with the environment of the golden pods, in front
//! of an engine that the tests script. Only ports, folders and times are changed.

#[path = "pod/crash.rs"]
mod crash;
#[path = "pod/drain.rs"]
mod drain;

use crate::support::{CHAT, Client, DEADLINE};
use anyhow::{Context, ensure};
use fairtide_testkit::{Process, ScriptedEngine, Spawn, TempDir, eventually, free_port, http_get};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};
use tokio::time::Instant;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fairtide-sidecar");
const STREAMED: &str = r#"{"stream":true}"#;

struct Pod {
    process: Process,
    engine: ScriptedEngine,
    address: SocketAddr,
    admin: String,
    environment: Vec<(String, String)>,
    folder: TempDir,
}

/// The sidecar's variables in a golden pod, as the kubelet hands them on.
fn environment(golden: &str) -> anyhow::Result<(Value, Vec<(String, String)>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../inject/tests/golden");
    let text = std::fs::read_to_string(folder.join(format!("{golden}.expected.yaml")))?;
    let pod: Value = serde_yaml::from_str(&text)?;
    let containers = &pod["injected"]["spec"]["initContainers"];
    let containers = containers.as_array().context("init containers")?;
    let sidecar = containers.iter().find(|c| c["name"] == "fairtide-sidecar");
    let env = sidecar.context("a sidecar")?["env"].clone();
    let mut known: Vec<(String, String)> = Vec::new();
    for variable in env.as_array().context("variables")? {
        let name = variable["name"].as_str().context("a name")?;
        let field = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
        let value = match (field, variable["value"].as_str()) {
            (Some("metadata.name"), _) => "llama-0".to_owned(),
            (Some("metadata.namespace"), _) => "chat".to_owned(),
            (Some("metadata.uid"), _) => "u-0".to_owned(),
            (Some("status.podIPs"), _) => "127.0.0.1".to_owned(),
            (_, Some(value)) => expand(value, &known),
            _ => anyhow::bail!("{name} has no value"),
        };
        known.push((name.to_owned(), value));
    }
    let found = known.iter().find(|(name, _)| name == "FAIRTIDE_BOOTSTRAP");
    let bootstrap = serde_json::from_str(&found.context("a bootstrap")?.1)?;
    Ok((bootstrap, known))
}

/// `$(NAME)` is a reference, `$$` a dollar.
fn expand(value: &str, known: &[(String, String)]) -> String {
    let dollars = value.replace("$$", "\u{0}");
    let expanded = known.iter().fold(dollars, |text, (name, value)| {
        text.replace(&format!("$({name})"), value)
    });
    expanded.replace('\u{0}', "$")
}

impl Pod {
    async fn start(golden: &str, change: impl FnOnce(&mut Value)) -> anyhow::Result<Self> {
        let engine = ScriptedEngine::start().await?;
        let (mut bootstrap, mut environment) = environment(golden)?;
        let folder = TempDir::new("pod")?;
        folder.write("token", "t")?;
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (listen, admin) = (free_port()?, free_port()?);
        bootstrap["listeners"] = json!([{
            "listen": format!("[::]:{listen}"),
            "upstream": engine.address().to_string(),
        }]);
        bootstrap["admin"] = json!(format!("[::]:{admin}"));
        if !bootstrap["checks"]["readiness"].is_null() {
            bootstrap["checks"]["readiness"]["upstream"] = json!(engine.address().to_string());
        }
        bootstrap["stateFolder"] = json!(path("run"));
        bootstrap["modeFile"] = json!(path("mode"));
        bootstrap["channel"]["tokenFile"] = json!(path("token"));
        bootstrap["channel"]["url"] = json!("https://127.0.0.1:1");
        change(&mut bootstrap);
        for (name, value) in &mut environment {
            if name == "FAIRTIDE_BOOTSTRAP" {
                *value = bootstrap.to_string();
            }
        }
        let admin = format!("127.0.0.1:{admin}");
        let mut pod = Self {
            process: spawn(&folder, &environment, &[]).start()?,
            engine,
            address: ([127, 0, 0, 1], listen).into(),
            admin,
            environment,
            folder,
        };
        let admin = pod.admin.clone();
        pod.process.ready(&admin, "/startupz", DEADLINE).await?;
        Ok(pod)
    }

    /// As the kubelet's hook does it.
    async fn mark(&self) -> anyhow::Result<()> {
        let mut hook = spawn(&self.folder, &self.environment, &["mark-terminating"]).start()?;
        let status = hook.wait(DEADLINE).await?;
        ensure!(status == 0, "{status}: {}", hook.log());
        Ok(())
    }

    async fn ready(&self) -> anyhow::Result<StatusCode> {
        Ok(http_get(&self.admin, "/readyz").await?.0)
    }

    async fn until_ready(&self, wanted: StatusCode) -> anyhow::Result<()> {
        eventually(&format!("readiness is {wanted}"), DEADLINE, async || {
            let (now, text) = http_get(&self.admin, "/readyz").await?;
            ensure!(now == wanted, "{now}: {text:?}");
            Ok(())
        })
        .await
    }

    async fn state(&self) -> anyhow::Result<Value> {
        let (_, text) = http_get(&self.admin, "/debug/state").await?;
        Ok(serde_json::from_slice(&text)?)
    }

    async fn until(&self, what: &str, wanted: Value) -> anyhow::Result<()> {
        eventually(&format!("{what} is {wanted}"), DEADLINE, async || {
            let state = self.state().await?;
            let now = state.pointer(what).cloned().unwrap_or_default();
            ensure!(now == wanted, "it is {now}");
            Ok(())
        })
        .await
    }

    async fn ask(&self, body: &'static str) -> anyhow::Result<Asked> {
        let mut client = Client::http1(self.address).await?;
        let request = client.request(Method::POST, CHAT, &[], body)?;
        Ok(tokio::spawn(async move {
            let answer = client.send(request).await?;
            Ok((answer, client))
        }))
    }
}

type Asked =
    tokio::task::JoinHandle<anyhow::Result<(http::Response<hyper::body::Incoming>, Client)>>;

fn spawn(folder: &TempDir, environment: &[(String, String)], args: &[&str]) -> Spawn {
    let log = folder.path().join(args.first().unwrap_or(&"log"));
    let spawn = Spawn::new(PROGRAM, log).args(args);
    let variables = environment.iter();
    variables.fold(spawn, |spawn, (name, value)| spawn.env(name, value))
}

fn short(lame_duck: u32, grace: u32) -> impl FnOnce(&mut Value) {
    move |bootstrap| {
        bootstrap["drain"] =
            json!({"graceSeconds": grace, "lameDuckSeconds": lame_duck, "engineStopSeconds": 1});
    }
}

#[tokio::test]
async fn an_injected_sidecar_serves_without_an_operator() -> anyhow::Result<()> {
    for golden in ["vllm-image-args", "host-network"] {
        let begun = Instant::now();
        let mut pod = Pod::start(golden, |_| {}).await?;
        println!("{golden}: started after {:?}", begun.elapsed());
        pod.until_ready(StatusCode::OK).await?;
        let asked = pod.ask("{}").await?;
        let call = pod.engine.next(DEADLINE).await?;
        call.answer(StatusCode::OK, "{}");
        assert_eq!(asked.await??.0.status(), StatusCode::OK);
        let (status, _) = http_get(&pod.admin, "/debug/state").await?;
        let shown = match golden {
            "host-network" => StatusCode::FORBIDDEN,
            _ => StatusCode::OK,
        };
        assert_eq!(status, shown, "{golden}");
    }
    Ok(())
}

#[tokio::test]
async fn readiness_follows_the_engines_own_check() -> anyhow::Result<()> {
    let mut pod = Pod::start("vllm-image-args", |_| {}).await?;
    pod.until_ready(StatusCode::OK).await?;
    pod.engine.go_down();
    pod.until_ready(StatusCode::SERVICE_UNAVAILABLE).await?;
    let (status, _) = http_get(&pod.admin, "/engine/ready").await?;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let (live, _) = http_get(&pod.admin, "/livez").await?;
    assert_eq!(live, StatusCode::OK, "the sidecar itself is well");
    let answer = pod.ask("{}").await?.await??.0;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.headers()["x-fairtide-outcome"], "engine_unavailable");
    pod.engine.come_up().await?;
    pod.until_ready(StatusCode::OK).await
}

/// As the kubelet updates such a volume: a folder with a time's name, and a link swapped to it.
fn annotate(folder: &Path, generation: u32, value: &str) -> anyhow::Result<PathBuf> {
    let volume = folder.join("volume");
    let data = volume.join(format!("..{generation}"));
    std::fs::create_dir_all(&data)?;
    std::fs::write(data.join("mode"), value)?;
    let (link, half) = (volume.join("..data"), volume.join("..data_tmp"));
    symlink(format!("..{generation}"), &half)?;
    std::fs::rename(half, link)?;
    let file = volume.join("mode");
    if !file.exists() {
        symlink("..data/mode", &file)?;
    }
    Ok(file)
}

#[tokio::test]
async fn one_pod_is_put_into_bypass_by_its_annotation() -> anyhow::Result<()> {
    let volume = TempDir::new("volume")?;
    let file = annotate(volume.path(), 1, "")?;
    let mut pod = Pod::start("vllm-image-args", |bootstrap| {
        bootstrap["modeFile"] = json!(file);
        bootstrap["policy"] = json!({
            "pool": {"namespace": "chat", "name": "llama"},
            "limiter": {"maxRequests": 1},
            "defaultClass": "c",
            "classes": [{"name": "c", "tier": "Interactive", "priority": 100, "weight": 1,
                "minShare": 0, "queue": {"ttlMs": 60000}, "matches": []}],
        });
    })
    .await?;
    pod.until_ready(StatusCode::OK).await?;
    let first = pod.ask("first").await?;
    let first_call = pod.engine.next(DEADLINE).await?;
    let second = pod.ask("second").await?;
    pod.until("/scheduler/classes/0/queued", json!(1)).await?;

    annotate(volume.path(), 2, "Bypass")?;
    let second_call = pod.engine.next(DEADLINE).await?;
    assert_eq!(second_call.body, "second", "nothing waits under Bypass");
    pod.until("/pod/modeSource", json!("annotation")).await?;
    let third = pod.ask("third").await?;
    let third_call = pod.engine.next(DEADLINE).await?;
    pod.until("/scheduler/inFlight", json!(3)).await?;

    annotate(volume.path(), 3, "bypas")?;
    pod.until("/pod/mode", json!("Enforce")).await?;
    pod.until("/pod/unknownMode", json!("bypas")).await?;
    assert_eq!(pod.state().await?["pod"]["modeSource"], "pool");
    pod.process
        .line("write Enforce or Bypass", DEADLINE)
        .await?;
    // Those that passed still take their place: the limit is one.
    let fourth = pod.ask("fourth").await?;
    pod.until("/scheduler/classes/0/queued", json!(1)).await?;
    for (call, asked) in [
        (first_call, first),
        (second_call, second),
        (third_call, third),
    ] {
        assert!(pod.engine.try_next().is_none(), "the limit holds");
        call.answer(StatusCode::OK, "{}");
        assert_eq!(asked.await??.0.status(), StatusCode::OK);
    }
    let call = pod.engine.next(DEADLINE).await?;
    assert_eq!(call.body, "fourth");
    call.answer(StatusCode::OK, "{}");
    assert_eq!(fourth.await??.0.status(), StatusCode::OK);
    Ok(())
}

#[tokio::test]
async fn a_pod_finds_out_whether_it_can_be_gone_around() -> anyhow::Result<()> {
    let pod = Pod::start("vllm-image-args", |_| {}).await?;
    // Its address is 127.0.0.1 here, where the engine answers as well.
    pod.until("/pod/bypassable", json!(true)).await?;
    assert_eq!(pod.state().await?["pod"]["reached"], true);
    let (_, page) = http_get(&pod.admin, "/metrics").await?;
    let page = String::from_utf8(page.to_vec())?;
    assert!(page.contains("fairtide_sidecar_bypassable 1"), "{page}");
    Ok(())
}

#[tokio::test]
async fn a_bad_bootstrap_ends_with_64_and_one_sentence() -> anyhow::Result<()> {
    let folder = TempDir::new("bad")?;
    for (text, says) in [
        ("{", "is no JSON"),
        (r#"{"v":9}"#, "version 9"),
        ("{}", "can't be read"),
    ] {
        let environment = [("FAIRTIDE_BOOTSTRAP".to_owned(), text.to_owned())];
        std::fs::write(folder.path().join("log"), "")?;
        let mut process = spawn(&folder, &environment, &[]).start()?;
        assert_eq!(process.wait(DEADLINE).await?, 64);
        let log = process.log();
        assert!(log.contains(says) && log.lines().count() == 1, "{log}");
    }
    Ok(())
}

#[tokio::test]
async fn several_ports_are_served_and_an_engine_behind_a_socket() -> anyhow::Result<()> {
    let other = free_port()?;
    let folder = TempDir::new("socket")?;
    let socket = folder.path().join("engine.sock");
    // What an engine left behind that crashed.
    drop(std::os::unix::net::UnixListener::bind(&socket)?);
    let mut pod = Pod::start("vllm-image-args", |bootstrap| {
        let upstream = format!("unix:{}", socket.display());
        let listener = json!({"listen": format!("[::]:{other}"), "upstream": upstream});
        let listeners = bootstrap["listeners"].as_array_mut();
        listeners.expect("a list").push(listener);
    })
    .await?;
    let engine = eventually("the dead socket's file is gone", DEADLINE, async || {
        Ok(tokio::net::UnixListener::bind(&socket)?)
    })
    .await?;
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        while let Ok((mut stream, _)) = engine.accept().await {
            let mut request = [0; 2048];
            let _ = stream.read(&mut request).await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nlocal";
            let _ = stream.write_all(answer).await;
        }
    });
    let mut client = Client::http1(([127, 0, 0, 1], other).into()).await?;
    let answer = client.post(CHAT, &[], "{}").await?.into_body();
    assert_eq!(answer.collect().await?.to_bytes(), "local");
    let asked = pod.ask("{}").await?;
    let call = pod.engine.next(DEADLINE).await?;
    call.answer(StatusCode::OK, "{}");
    assert_eq!(asked.await??.0.status(), StatusCode::OK);
    let state = pod.state().await?;
    assert_eq!(state["ports"].as_array().map(Vec::len), Some(2));
    Ok(())
}
