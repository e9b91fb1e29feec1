//! Policies over the channel, from an operator that the tests play.

use crate::support::{CHAT, DEADLINE, Stage};
use anyhow::{Context, ensure};
use bytes::Bytes;
use fairtide_policy::{Message, Policy};
use fairtide_resolve::ObjectKey;
use fairtide_sidecar::{Authorities, ChannelConfig, PolicySource};
use fairtide_testkit::{TempDir, eventually, free_port, http_get};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};

/// One that listens, and hands each channel that is opened to the test.
struct Operator {
    address: SocketAddr,
    opened: mpsc::UnboundedReceiver<Opened>,
    redirect: Arc<Mutex<Option<SocketAddr>>>,
    turned_away: Arc<AtomicUsize>,
    _running: DropGuard,
}

/// A channel as the operator sees it.
struct Opened {
    authorization: String,
    out: mpsc::UnboundedSender<Result<Frame<Bytes>, Infallible>>,
    body: Incoming,
    buffer: Vec<u8>,
}

/// The CA, and a server certificate for `localhost` by it.
struct Certificates {
    ca: String,
    server: Arc<rustls::ServerConfig>,
}

fn certificates() -> anyhow::Result<Certificates> {
    let ca_key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key)?;
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec!["localhost".to_owned()])?;
    let certificate = params.signed_by(&key, &issuer)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    server.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Certificates {
        ca: ca.pem(),
        server: Arc::new(server),
    })
}

// === impl Operator ===

impl Operator {
    async fn start(
        certificates: &Certificates,
        address: Option<SocketAddr>,
    ) -> anyhow::Result<Self> {
        // Not from the range of outgoing connections: nobody takes it while the operator is down.
        let address = match address {
            Some(address) => address,
            None => ([127, 0, 0, 1], free_port()?).into(),
        };
        let listener = eventually("the port is free", DEADLINE, async || {
            Ok(TcpListener::bind(address).await?)
        })
        .await?;
        let (channels, opened) = mpsc::unbounded_channel();
        let redirect = Arc::<Mutex<Option<SocketAddr>>>::default();
        let stop = CancellationToken::new();
        let acceptor = TlsAcceptor::from(certificates.server.clone());
        let turned_away = Arc::<AtomicUsize>::default();
        let serving = accept(
            listener,
            acceptor,
            channels,
            redirect.clone(),
            turned_away.clone(),
            stop.clone(),
        );
        tokio::spawn(stop.clone().run_until_cancelled_owned(serving));
        Ok(Self {
            address,
            opened,
            redirect,
            turned_away,
            _running: stop.drop_guard(),
        })
    }

    async fn channel(&mut self) -> anyhow::Result<Opened> {
        let opened = tokio::time::timeout(DEADLINE, self.opened.recv()).await;
        opened.context("nobody connects")?.context("it runs")
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    channels: mpsc::UnboundedSender<Opened>,
    redirect: Arc<Mutex<Option<SocketAddr>>>,
    turned_away: Arc<AtomicUsize>,
    stop: CancellationToken,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, channels) = (acceptor.clone(), channels.clone());
        let (redirect, turned_away) = (redirect.clone(), turned_away.clone());
        let connection = async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                turned_away.fetch_add(1, Ordering::Relaxed);
                return;
            };
            let service = service_fn(move |request: Request<Incoming>| {
                let response = respond(request, &channels, *redirect.lock());
                async move { Ok::<_, Infallible>(response) }
            });
            let _ = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(connection));
    }
}

fn respond(
    request: Request<Incoming>,
    channels: &mpsc::UnboundedSender<Opened>,
    redirect: Option<SocketAddr>,
) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let (parts, body) = request.into_parts();
    if parts.uri.path() != "/v1/channel" || parts.method != http::Method::POST {
        let mut response = Response::new(Full::default().boxed_unsync());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    if let Some(elsewhere) = redirect {
        let mut response = Response::new(Full::default().boxed_unsync());
        *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
        let location = format!("https://{elsewhere}/v1/channel");
        let location = location.parse().expect("a header value");
        response.headers_mut().insert("location", location);
        return response;
    }
    let (out, frames) = mpsc::unbounded_channel();
    let authorization = parts.headers.get("authorization");
    let _ = channels.send(Opened {
        authorization: authorization
            .and_then(|a| a.to_str().ok())
            .unwrap_or_default()
            .to_owned(),
        out,
        body,
        buffer: Vec::new(),
    });
    Response::new(StreamBody::new(UnboundedReceiverStream::new(frames)).boxed_unsync())
}

// === impl Opened ===

impl Opened {
    async fn next(&mut self) -> anyhow::Result<Message> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line)?);
            }
            let frame = tokio::time::timeout(DEADLINE, self.body.frame()).await;
            let frame = frame.context("no line")?.context("the end")??;
            self.buffer
                .extend_from_slice(frame.data_ref().context("no data")?);
        }
    }

    /// The next message that is no report.
    async fn answer(&mut self) -> anyhow::Result<Message> {
        loop {
            match self.next().await? {
                Message::Report { .. } => {}
                message => return Ok(message),
            }
        }
    }

    fn say(&self, line: &serde_json::Value) {
        let _ = self.out.send(Ok(Frame::data(format!("{line}\n").into())));
    }

    fn snapshot(&self, version: &str, policy: &serde_json::Value) {
        self.say(&serde_json::json!({
            "type": "snapshot", "v": 1, "version": version, "policy": policy,
        }));
    }
}

/// A policy whose only class has this name.
fn policy(class: &str) -> serde_json::Value {
    let policy = serde_json::json!({
        "pool": {"namespace": "chat", "name": "llama", "generation": 3},
        "defaultClass": class,
        "classes": [{
            "name": class, "generation": 2, "tier": "Interactive", "priority": 100, "weight": 1,
            "minShare": 0, "queue": {"ttlMs": 10000},
        }],
        "somethingNewer": true,
    });
    assert!(serde_json::from_value::<Policy>(policy.clone()).is_ok());
    policy
}

async fn stage(operator: SocketAddr, folder: TempDir) -> anyhow::Result<Stage> {
    let source = PolicySource::Channel(ChannelConfig {
        url: format!("https://localhost:{}", operator.port()).parse()?,
        ca: Authorities::File(folder.path().join("ca.pem")),
        token: folder.path().join("token"),
        pod: ObjectKey::new("chat", "llama-0"),
        state: Some(folder.path().join("state")),
        first: None,
    });
    Stage::start(folder, source, 1 << 20).await
}

fn folder(certificates: &Certificates) -> anyhow::Result<TempDir> {
    let folder = TempDir::new("channel")?;
    folder.write("ca.pem", &certificates.ca)?;
    folder.write("token", "token-one\n")?;
    Ok(folder)
}

async fn class_of(stage: &mut Stage) -> anyhow::Result<String> {
    let sent = stage.send(CHAT, &[], "{}").await?;
    stage
        .engine
        .next(DEADLINE)
        .await?
        .answer(StatusCode::OK, "{}");
    let answer = sent.whole().await?;
    Ok(answer
        .header("x-fairtide-class")
        .context("a class")?
        .to_owned())
}

#[tokio::test]
async fn a_snapshot_is_in_force_when_it_is_acknowledged() -> anyhow::Result<()> {
    let certificates = certificates()?;
    let mut operator = Operator::start(&certificates, None).await?;
    let mut stage = stage(operator.address, folder(&certificates)?).await?;
    let mut channel = operator.channel().await?;
    assert_eq!(channel.authorization, "Bearer token-one");
    let Message::Hello { pod, applied, .. } = channel.next().await? else {
        anyhow::bail!("no hello");
    };
    assert_eq!((pod.as_str(), applied), ("chat/llama-0", None));
    assert_eq!(
        class_of(&mut stage).await?,
        "_default",
        "it serves before it knows a policy"
    );
    for class in ["first", "second"] {
        channel.snapshot(class, &policy(class));
        let answer = channel.answer().await?;
        assert_eq!(
            answer,
            Message::Ack {
                v: 1,
                version: class.to_owned()
            }
        );
        assert_eq!(class_of(&mut stage).await?, class);
    }
    let report = loop {
        if let Message::Report { report, .. } = channel.next().await?
            && report.classes.iter().any(|class| class.completed > 0)
        {
            break report;
        }
    };
    assert_eq!(report.applied.as_deref(), Some("second"));
    let class = report.classes.iter().find(|class| class.name == "second");
    let class = class.context("the class")?;
    assert_eq!((class.offered, class.completed, class.refused), (1, 1, 0));
    Ok(())
}

#[tokio::test]
async fn an_impossible_policy_is_refused_and_the_old_one_stays() -> anyhow::Result<()> {
    let certificates = certificates()?;
    let mut operator = Operator::start(&certificates, None).await?;
    let mut stage = stage(operator.address, folder(&certificates)?).await?;
    let mut channel = operator.channel().await?;
    channel.snapshot("good", &policy("good"));
    assert!(matches!(channel.answer().await?, Message::Hello { .. }));
    assert!(matches!(channel.answer().await?, Message::Ack { .. }));

    let mut negative = policy("bad");
    negative["classes"][0]["weight"] = (-1).into();
    let mut promised = policy("bad");
    promised["classes"][0]["minShare"] = 91.into();
    let mut nobody = policy("bad");
    nobody["defaultClass"] = "nobody".into();
    let newer = serde_json::json!({"type": "snapshot", "v": 2, "version": "v2", "policy": {}});
    channel.say(&serde_json::json!({"type": "somethingNewer", "v": 2}));
    for (says, snapshot) in [
        (
            "-1",
            serde_json::json!({"type": "snapshot", "v": 1, "version": "a", "policy": negative}),
        ),
        (
            "minShare",
            serde_json::json!({"type": "snapshot", "v": 1, "version": "b", "policy": promised}),
        ),
        (
            "nobody",
            serde_json::json!({"type": "snapshot", "v": 1, "version": "c", "policy": nobody}),
        ),
        ("protocol", newer),
    ] {
        channel.say(&snapshot);
        let Message::Nack {
            version, reason, ..
        } = channel.answer().await?
        else {
            anyhow::bail!("{says}: no nack");
        };
        assert_eq!(version, snapshot["version"]);
        assert!(reason.contains(says), "{says}: {reason}");
        assert_eq!(class_of(&mut stage).await?, "good");
    }
    assert_eq!(stage.metric("policies_refused_total").await?, 4.0);
    Ok(())
}

#[tokio::test]
async fn a_restart_without_operator_comes_back_under_the_last_policy() -> anyhow::Result<()> {
    let certificates = certificates()?;
    let mut operator = Operator::start(&certificates, None).await?;
    let address = operator.address;
    let mut first = stage(address, folder(&certificates)?).await?;
    let mut channel = operator.channel().await?;
    channel.snapshot("v-kept", &policy("kept"));
    channel.next().await?;
    assert!(matches!(channel.answer().await?, Message::Ack { .. }));
    drop((operator, channel));
    first.until("channel_connected", 0.0).await?;
    assert_eq!(
        class_of(&mut first).await?,
        "kept",
        "nothing changes for traffic"
    );
    first.tell_to_go();
    first.gone().await?;
    let folder = first.folder;

    let mut second = stage(address, folder).await?;
    assert_eq!(class_of(&mut second).await?, "kept");
    let state = second.debug("state").await?;
    assert_eq!(state["policy"]["source"], "kept");
    assert_eq!(state["policy"]["version"], "v-kept");
    let (ready, _) = http_get(&second.admin.to_string(), "/readyz").await?;
    assert_eq!(ready, StatusCode::OK);

    // The operator is back, and hears what is obeyed; the token has been renewed meanwhile.
    second.folder.write("token", "token-two")?;
    let mut operator = Operator::start(&certificates, Some(address)).await?;
    let mut channel = operator.channel().await?;
    if channel.authorization == "Bearer token-one" {
        // This attempt had read the file before it was written.
        drop(channel);
        channel = operator.channel().await?;
    }
    assert_eq!(channel.authorization, "Bearer token-two");
    let Message::Hello { applied, .. } = channel.next().await? else {
        anyhow::bail!("no hello");
    };
    assert_eq!(applied.as_deref(), Some("v-kept"));
    Ok(())
}

#[tokio::test]
async fn without_any_policy_it_serves_under_the_bootstraps() -> anyhow::Result<()> {
    let certificates = certificates()?;
    let folder = folder(&certificates)?;
    std::fs::create_dir(folder.path().join("state"))?;
    std::fs::write(folder.path().join("state/policy.json"), "{ half")?;
    let nobody = ([127, 0, 0, 1], free_port()?).into();
    let mut stage = stage(nobody, folder).await?;
    assert_eq!(class_of(&mut stage).await?, "_default");
    eventually("it is ready", DEADLINE, async || {
        let (ready, text) = http_get(&stage.admin.to_string(), "/readyz").await?;
        ensure!(ready == StatusCode::OK, "{text:?}");
        Ok(())
    })
    .await?;
    assert_eq!(stage.debug("state").await?["policy"]["source"], "bootstrap");
    Ok(())
}

#[tokio::test]
async fn a_redirect_leads_to_the_replica_with_the_lease() -> anyhow::Result<()> {
    let certificates = certificates()?;
    let other = Operator::start(&certificates, None).await?;
    let mut leader = Operator::start(&certificates, None).await?;
    *other.redirect.lock() = Some(leader.address);
    let _stage = stage(other.address, folder(&certificates)?).await?;
    // The certificate says localhost, the redirect 127.0.0.1: the name stays the Service's.
    let mut channel = leader.channel().await?;
    assert!(matches!(channel.next().await?, Message::Hello { .. }));
    Ok(())
}

#[tokio::test]
async fn an_operator_of_another_ca_is_not_believed() -> anyhow::Result<()> {
    let (ours, theirs) = (certificates()?, certificates()?);
    let mut stranger = Operator::start(&theirs, None).await?;
    let mut stage = stage(stranger.address, folder(&ours)?).await?;
    eventually("the sidecar turned away", DEADLINE, async || {
        ensure!(stranger.turned_away.load(Ordering::Relaxed) > 0);
        Ok(())
    })
    .await?;
    assert_eq!(class_of(&mut stage).await?, "_default");
    // Files are read anew at each attempt. Had it believed before, the token would be the first.
    stage.folder.write("token", "token-two")?;
    stage.folder.write("ca.pem", &theirs.ca)?;
    assert_eq!(stranger.channel().await?.authorization, "Bearer token-two");
    Ok(())
}

#[tokio::test]
async fn the_operators_next_authority_is_trusted_once_it_was_told_and_after_a_restart()
-> anyhow::Result<()> {
    let (first_ca, next_ca) = (certificates()?, certificates()?);
    let mut operator = Operator::start(&first_ca, None).await?;
    let address = operator.address;
    let mut first = stage(address, folder(&first_ca)?).await?;
    let mut channel = operator.channel().await?;
    assert!(matches!(channel.answer().await?, Message::Hello { .. }));
    let authorities = |version: &str, pem: &str| serde_json::json!({"type": "authorities", "v": 1, "version": version, "pem": pem});
    // What can't be read is not confirmed, and does no harm.
    channel.say(&authorities("none", "no certificate"));
    let both = format!("{}{}", first_ca.ca, next_ca.ca);
    channel.say(&authorities("both", &both));
    let version = "both".to_owned();
    assert_eq!(channel.answer().await?, Message::Trusting { v: 1, version });
    drop((operator, channel));
    first.until("channel_connected", 0.0).await?;

    // It was started with the first one only.
    let mut operator = Operator::start(&next_ca, Some(address)).await?;
    let mut channel = operator.channel().await?;
    assert!(matches!(channel.next().await?, Message::Hello { .. }));
    first.tell_to_go();
    first.gone().await?;
    drop(channel);
    let mut second = stage(address, first.folder).await?;
    let mut channel = operator.channel().await?;
    assert!(matches!(channel.next().await?, Message::Hello { .. }));
    assert_eq!(class_of(&mut second).await?, "_default");
    Ok(())
}

#[tokio::test]
async fn authorities_that_cannot_be_kept_are_not_confirmed() -> anyhow::Result<()> {
    let certificates = certificates()?;
    let mut operator = Operator::start(&certificates, None).await?;
    let folder = folder(&certificates)?;
    folder.write("state", "a file in the folder's place")?;
    let _stage = stage(operator.address, folder).await?;
    let mut channel = operator.channel().await?;
    let said =
        serde_json::json!({"type": "authorities", "v": 1, "version": "a", "pem": certificates.ca});
    channel.say(&said);
    // What is in force is in force, kept or not: this is confirmed, and nothing before it.
    channel.snapshot("after", &policy("after"));
    assert!(matches!(channel.answer().await?, Message::Hello { .. }));
    let version = "after".to_owned();
    assert_eq!(channel.answer().await?, Message::Ack { v: 1, version });
    Ok(())
}
