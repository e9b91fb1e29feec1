//! A sidecar in front of a scripted engine, and clients that can be cut off.

use anyhow::{Context, ensure};
use bytes::Bytes;
use fairtide_policy::bootstrap::Checks;
use fairtide_sidecar::{Config, DrainPlan, PolicySource, Port, Sidecar};
use fairtide_testkit::{ScriptedEngine, TempDir, eventually, http_get};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};

/// Spent only by a test that fails.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub const CHAT: &str = "/v1/chat/completions";

/// One request at a time, so that a test decides who waits.
pub const ONE_SEAT: &str = "limiter: {mode: Fixed, fixed: {maxRequests: 1}}";

/// A sidecar, its engine and its policy folder.
pub struct Stage {
    pub engine: ScriptedEngine,
    pub folder: TempDir,
    pub address: SocketAddr,
    pub admin: SocketAddr,
    stop: Option<DropGuard>,
    running: AbortOnDropHandle<()>,
}

/// One connection. Dropped, it closes at once.
pub struct Client {
    sender: Sender,
    authority: String,
    _connection: AbortOnDropHandle<()>,
}

enum Sender {
    Http1(hyper::client::conn::http1::SendRequest<Full<Bytes>>),
    Http2(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
}

/// A request that is on its way in a task of its own. Dropped, its client is gone.
pub struct Pending(AbortOnDropHandle<anyhow::Result<Begun>>);

/// An answer that has begun. Dropped, its client is gone.
pub struct Begun {
    pub head: http::response::Parts,
    body: Incoming,
    _client: Client,
}

/// The pool `chat/llama` with these lines in its spec.
pub fn pool(spec: &str) -> String {
    let mut text = "apiVersion: traffic.fairtide.dev/v1alpha1\nkind: InferencePool\n\
                    metadata: {name: llama, namespace: chat}\nspec:\n\
                    \x20 selector: {matchLabels: {app: llama}}\n\
                    \x20 targetPorts: [{number: 8000}]\n"
        .to_owned();
    for line in spec.lines() {
        text += &format!("  {line}\n");
    }
    text
}

/// A class of that pool.
pub fn class(name: &str, spec: &str) -> String {
    let mut text = format!(
        "apiVersion: traffic.fairtide.dev/v1alpha1\nkind: TrafficClass\n\
         metadata: {{name: {name}, namespace: chat}}\nspec:\n  poolRefs: [{{name: llama}}]\n"
    );
    for line in spec.lines() {
        text += &format!("  {line}\n");
    }
    text
}

// === impl Stage ===

impl Stage {
    /// With a pool of this spec, and these classes as (name, spec), each in a file of its own.
    pub async fn new(pool_spec: &str, classes: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::with_body_limit(pool_spec, classes, 64 << 20).await
    }

    pub async fn with_body_limit(
        pool_spec: &str,
        classes: &[(&str, &str)],
        max_body_bytes: u64,
    ) -> anyhow::Result<Self> {
        let folder = TempDir::new("sidecar")?;
        folder.write("pool.yaml", pool(pool_spec))?;
        for (name, spec) in classes {
            folder.write(&format!("{name}.yaml"), class(name, spec))?;
        }
        let source = PolicySource::Manifests {
            folder: folder.path().to_owned(),
            pool: fairtide_resolve::ObjectKey::new("chat", "llama"),
        };
        Self::start(folder, source, max_body_bytes).await
    }

    pub async fn start(
        folder: TempDir,
        source: PolicySource,
        max_body_bytes: u64,
    ) -> anyhow::Result<Self> {
        let engine = ScriptedEngine::start().await?;
        let localhost = "127.0.0.1:0".parse()?;
        let config = Config {
            ports: vec![Port {
                listen: localhost,
                upstream: engine.address().to_string().parse()?,
            }],
            admin: localhost,
            source,
            max_body_bytes,
            drain: DrainPlan::at_once(DEADLINE),
            engine: None,
            checks: Checks::default(),
            host_network: false,
            state_folder: None,
            mode_file: None,
            pod_ips: Vec::new(),
            restarts: 0,
        };
        let sidecar = Sidecar::start(config).await?;
        let (address, admin) = (sidecar.listen()[0], sidecar.admin());
        let stop = CancellationToken::new();
        let told_to_go = stop.clone().cancelled_owned();
        let running = tokio::spawn(async move {
            sidecar.run(told_to_go).await.expect("it ends when told to");
        });
        Ok(Self {
            engine,
            folder,
            address,
            admin,
            stop: Some(stop.drop_guard()),
            running: AbortOnDropHandle::new(running),
        })
    }

    /// Tells the sidecar to go.
    pub fn tell_to_go(&mut self) {
        self.stop = None;
    }

    /// Waits until the sidecar has gone by itself.
    pub async fn gone(&mut self) -> anyhow::Result<()> {
        tokio::time::timeout(DEADLINE, &mut self.running)
            .await
            .context("it is still there")??;
        Ok(())
    }

    /// Puts an engine in the place of the scripted one that gives each POST this answer, byte for
    /// byte, and then closes.
    pub async fn answer_all(&mut self, answer: &'static str) -> anyhow::Result<()> {
        self.engine.go_down();
        let address = self.engine.address();
        let listener = eventually("the port is free", DEADLINE, async || {
            Ok(TcpListener::bind(address).await?)
        })
        .await?;
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 2048];
                let read = stream.read(&mut request).await.unwrap_or(0);
                if request[..read].starts_with(b"POST") {
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            }
        });
        Ok(())
    }

    pub async fn client(&self) -> anyhow::Result<Client> {
        Client::http1(self.address).await
    }

    /// Sends a request over a connection of its own.
    pub async fn send(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Pending> {
        let mut client = self.client().await?;
        let request = client.request(Method::POST, path, headers, body)?;
        let task = tokio::spawn(async move {
            let (head, body) = client.send(request).await?.into_parts();
            Ok(Begun {
                head,
                body,
                _client: client,
            })
        });
        Ok(Pending(AbortOnDropHandle::new(task)))
    }

    /// The value of a metric whose line begins with this; 0 where there is no such line.
    pub async fn metric(&self, line: &str) -> anyhow::Result<f64> {
        let (_, page) = http_get(&self.admin.to_string(), "/metrics").await?;
        let page = String::from_utf8(page.to_vec())?;
        let wanted = format!("fairtide_sidecar_{line} ");
        let value = page.lines().find_map(|line| line.strip_prefix(&wanted));
        Ok(value.map_or(Ok(0.0), str::parse)?)
    }

    /// Waits until a metric has a value.
    pub async fn until(&self, line: &str, value: f64) -> anyhow::Result<()> {
        eventually(&format!("{line} is {value}"), DEADLINE, async || {
            let now = self.metric(line).await?;
            ensure!(now == value, "it is {now}");
            Ok(())
        })
        .await
    }

    /// Waits until a class has counted so many requests with an outcome.
    pub async fn outcome(&self, class: &str, outcome: &str, count: f64) -> anyhow::Result<()> {
        let line = format!("requests_total{{class=\"{class}\",outcome=\"{outcome}\"}}");
        self.until(&line, count).await
    }

    /// Waits until so many requests of a class are queued.
    pub async fn queued(&self, class: &str, count: f64) -> anyhow::Result<()> {
        self.until(&format!("queued{{class=\"{class}\"}}"), count)
            .await
    }

    /// Waits until so many requests of a class are in the engine.
    pub async fn in_flight(&self, class: &str, count: f64) -> anyhow::Result<()> {
        self.until(&format!("in_flight{{class=\"{class}\"}}"), count)
            .await
    }

    /// A debug page.
    pub async fn debug(&self, page: &str) -> anyhow::Result<Value> {
        let (status, body) = http_get(&self.admin.to_string(), &format!("/debug/{page}")).await?;
        ensure!(status == StatusCode::OK, "{status}");
        Ok(serde_json::from_slice(&body)?)
    }
}

// === impl Pending ===

impl Pending {
    /// Waits until the answer begins.
    pub async fn begun(self) -> anyhow::Result<Begun> {
        self.0.await?
    }

    /// Waits for the whole answer.
    pub async fn whole(self) -> anyhow::Result<Whole> {
        let begun = self.begun().await?;
        let _client = begun._client;
        Whole::of(Response::from_parts(begun.head, begun.body)).await
    }
}

// === impl Begun ===

impl Begun {
    /// Waits until exactly these bytes have come.
    pub async fn read(&mut self, wanted: &[u8]) -> anyhow::Result<()> {
        let mut got = Vec::new();
        while got.len() < wanted.len() {
            let frame = tokio::time::timeout(DEADLINE, self.body.frame()).await;
            let frame = frame.context("no more bytes")?.context("the end")??;
            got.extend_from_slice(frame.data_ref().context("no data")?);
        }
        ensure!(got == wanted, "{}", String::from_utf8_lossy(&got));
        Ok(())
    }

    /// What comes until the end; whether that is a clean one.
    pub async fn rest(&mut self) -> anyhow::Result<(Vec<u8>, bool)> {
        let mut got = Vec::new();
        loop {
            let frame = tokio::time::timeout(DEADLINE, self.body.frame()).await;
            match frame.context("no end")? {
                None => return Ok((got, true)),
                Some(Err(_)) => return Ok((got, false)),
                Some(Ok(frame)) => got.extend_from_slice(frame.data_ref().context("no data")?),
            }
        }
    }
}

// === impl Client ===

impl Client {
    pub async fn http1(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TokioIo::new(TcpStream::connect(address).await?);
        let (sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        let connection = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self {
            sender: Sender::Http1(sender),
            authority: address.to_string(),
            _connection: AbortOnDropHandle::new(connection),
        })
    }

    pub async fn http2(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TokioIo::new(TcpStream::connect(address).await?);
        let executor = TokioExecutor::new();
        let (sender, connection) = hyper::client::conn::http2::handshake(executor, stream).await?;
        let connection = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Self {
            sender: Sender::Http2(sender),
            authority: address.to_string(),
            _connection: AbortOnDropHandle::new(connection),
        })
    }

    pub fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let uri = match self.sender {
            Sender::Http1(_) => path.to_owned(),
            Sender::Http2(_) => format!("http://{}{path}", self.authority),
        };
        let mut request = Request::builder().method(method).uri(uri);
        if matches!(self.sender, Sender::Http1(_)) && headers.iter().all(|(n, _)| *n != "host") {
            request = request.header("host", &self.authority);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Ok(request.body(Full::new(body.into()))?)
    }

    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<Response<Incoming>> {
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                tokio::time::timeout(DEADLINE, sender.send_request(request)).await
            }
            Sender::Http2(sender) => {
                tokio::time::timeout(DEADLINE, sender.send_request(request)).await
            }
        };
        Ok(response.context("no answer")??)
    }

    pub async fn post(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Response<Incoming>> {
        let request = self.request(Method::POST, path, headers, body)?;
        self.send(request).await
    }

    pub async fn get(&mut self, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = self.request(Method::GET, path, &[], "")?;
        let (parts, body) = self.send(request).await?.into_parts();
        Ok((parts.status, body.collect().await?.to_bytes()))
    }
}

/// What a whole answer says.
pub struct Whole {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

// === impl Whole ===

impl Whole {
    pub async fn of(response: Response<Incoming>) -> anyhow::Result<Self> {
        let (parts, body) = response.into_parts();
        let body = tokio::time::timeout(DEADLINE, body.collect()).await??;
        Ok(Self {
            status: parts.status,
            headers: parts.headers,
            body: body.to_bytes(),
        })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn json(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}
