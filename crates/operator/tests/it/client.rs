//! A sidecar's side of the channel, as small as it can be.

use bytes::Bytes;
use fairtide_policy::{Message, PROTOCOL_VERSION, Policy};
use fairtide_resolve::ObjectKey;
use futures::StreamExt;
use http::{Request, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpStream, sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::UnboundedReceiverStream;

/// Spent only by a failing test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An open channel.
pub struct Sidecar {
    out: mpsc::UnboundedSender<Message>,
    body: Incoming,
    buffer: Vec<u8>,
    connection: JoinHandle<()>,
}

/// A channel that was not opened.
#[derive(Debug)]
pub struct Refused {
    pub status: StatusCode,
    pub location: Option<String>,
    pub error: String,
}

/// Where and as whom to connect.
#[derive(Clone)]
pub struct Dial {
    pub address: SocketAddr,
    pub server_name: String,
    pub ca_pem: String,
    pub token: Option<String>,
    pub pod: String,
    pub applied: Option<String>,
    /// Bytes that the server may send before the client reads.
    pub window: Option<u32>,
}

// === impl Dial ===

impl Dial {
    pub fn new(address: SocketAddr, ca_pem: &str, token: &str, pod: &str) -> Self {
        Self {
            address,
            server_name: "localhost".to_owned(),
            ca_pem: ca_pem.to_owned(),
            token: Some(token.to_owned()),
            pod: pod.to_owned(),
            applied: None,
            window: None,
        }
    }

    pub fn hello(&self) -> Message {
        Message::Hello {
            v: PROTOCOL_VERSION,
            pod: self.pod.clone(),
            sidecar_version: "0.0.0-test".to_owned(),
            applied: self.applied.clone(),
        }
    }

    /// Opens the channel with a hello.
    pub async fn open(&self) -> Result<Sidecar, Refused> {
        self.open_with(self.hello()).await
    }

    /// Opens the channel with another first line.
    pub async fn open_with(&self, first: Message) -> Result<Sidecar, Refused> {
        let (mut sender, connection) = self.connect().await;
        let (out, messages) = mpsc::unbounded_channel::<Message>();
        out.send(first).unwrap();
        let lines = UnboundedReceiverStream::new(messages).map(|message| {
            let mut line = serde_json::to_vec(&message).unwrap();
            line.push(b'\n');
            Ok::<_, Infallible>(Frame::data(Bytes::from(line)))
        });
        let mut request = Request::post("https://localhost/v1/channel");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request
            .body(BodyExt::boxed_unsync(StreamBody::new(lines)))
            .unwrap();
        let response = tokio::time::timeout(PATIENCE, sender.send_request(request))
            .await
            .expect("the operator answers")
            .expect("the connection holds");
        if response.status() == StatusCode::OK {
            return Ok(Sidecar {
                out,
                body: response.into_body(),
                buffer: Vec::new(),
                connection,
            });
        }
        let location = response.headers().get(header::LOCATION);
        let location = location.map(|l| l.to_str().unwrap().to_owned());
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).expect("one JSON line");
        Err(Refused {
            status,
            location,
            error: body["error"].as_str().unwrap().to_owned(),
        })
    }

    async fn connect(
        &self,
    ) -> (
        hyper::client::conn::http2::SendRequest<
            http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>,
        >,
        JoinHandle<()>,
    ) {
        let name = self.server_name.clone();
        let stream = tls(self.address, name, &self.ca_pem, b"h2").await;
        let stream = stream.expect("the operator's certificate is trusted");
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        if let Some(window) = self.window {
            builder.initial_stream_window_size(window);
        }
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async move {
            let _ = connection.await;
        });
        (sender, connection)
    }
}

// === impl Sidecar ===

impl Sidecar {
    /// The next authorities to trust, which are confirmed. Snapshots before them are dropped.
    pub async fn authorities(&mut self) -> Option<(String, String)> {
        loop {
            let line = tokio::time::timeout(PATIENCE, self.any_line()).await;
            let line = line.unwrap_or_else(|_| panic!("no authorities in {PATIENCE:?}"))?;
            if let Message::Authorities { version, pem, .. } =
                serde_json::from_slice(&line).unwrap()
            {
                let v = PROTOCOL_VERSION;
                self.send(Message::Trusting {
                    v,
                    version: version.clone(),
                });
                return Some((version, pem));
            }
        }
    }

    /// The next snapshot, or `None` when the operator ended the channel.
    pub async fn snapshot(&mut self) -> Option<(String, Policy)> {
        match tokio::time::timeout(PATIENCE, self.line()).await {
            Err(_) => panic!("no snapshot in {PATIENCE:?}"),
            Ok(None) => None,
            Ok(Some(line)) => match serde_json::from_slice(&line).unwrap() {
                Message::Snapshot {
                    version, policy, ..
                } => Some((version, *policy)),
                other => panic!("not a snapshot: {other:?}"),
            },
        }
    }

    /// The next snapshot, put in force.
    pub async fn obey(&mut self) -> (String, Policy) {
        let (version, policy) = self.snapshot().await.expect("an open channel");
        self.ack(&version);
        (version, policy)
    }

    /// Waits until the operator has ended the channel, whatever it sends before.
    pub async fn closed(mut self) {
        while self.snapshot().await.is_some() {}
    }

    /// Whether a snapshot is already there.
    pub async fn silent_for(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.line()).await.is_err()
    }

    pub fn ack(&self, version: &str) {
        self.send(Message::Ack {
            v: PROTOCOL_VERSION,
            version: version.to_owned(),
        });
    }

    pub fn nack(&self, version: &str, reason: &str) {
        self.send(Message::Nack {
            v: PROTOCOL_VERSION,
            version: version.to_owned(),
            reason: reason.to_owned(),
        });
    }

    pub fn send(&self, message: Message) {
        let _ = self.out.send(message);
    }

    /// The next line that isn't about authorities. As of an older sidecar, those get no answer.
    async fn line(&mut self) -> Option<Vec<u8>> {
        loop {
            let line = self.any_line().await?;
            let message = serde_json::from_slice(&line).unwrap();
            if !matches!(message, Message::Authorities { .. }) {
                return Some(line);
            }
        }
    }

    async fn any_line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                return Some(std::mem::replace(&mut self.buffer, rest));
            }
            let frame = self.body.frame().await?.ok()?;
            if let Some(data) = frame.data_ref() {
                self.buffer.extend_from_slice(data);
            }
        }
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// A pod's key.
pub fn key(text: &str) -> ObjectKey {
    let (namespace, name) = text.split_once('/').unwrap();
    ObjectKey::new(namespace, name)
}

/// Connects to whoever shows a certificate of these authorities.
pub async fn tls(
    address: SocketAddr,
    server_name: String,
    ca_pem: &str,
    protocol: &[u8],
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from(server_name).unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await
}

/// A connection to the webhook that stays open.
pub struct Https(hyper::client::conn::http1::SendRequest<http_body_util::Full<Bytes>>);

// === impl Https ===

impl Https {
    pub async fn connect(address: SocketAddr, ca_pem: &str) -> std::io::Result<Self> {
        let stream = tls(address, "localhost".to_owned(), ca_pem, b"http/1.1").await?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.unwrap();
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    /// The answer's status and body.
    pub async fn send(
        &mut self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> (StatusCode, Bytes) {
        let request = request.header(header::HOST, "localhost");
        let request = request
            .body(http_body_util::Full::new(body.into()))
            .unwrap();
        let answer = self.0.send_request(request).await.expect("an answer");
        let status = answer.status();
        (
            status,
            answer.into_body().collect().await.unwrap().to_bytes(),
        )
    }
}
