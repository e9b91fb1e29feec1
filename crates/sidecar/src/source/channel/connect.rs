//! One attempt to open the channel: TCP, TLS, HTTP/2, the request.

use super::{Authorities, ChannelConfig};
use crate::source::trust::{Trust, roots};
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, Uri, header, uri::Authority};
use http_body::Frame;
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use std::{convert::Infallible, io, path::PathBuf, sync::Arc, time::Duration};
use tokio::{net::TcpStream, sync::mpsc};
use tokio_rustls::TlsConnector;
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tokio_util::task::AbortOnDropHandle;

/// For the connection, and for the answer to the request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A peer that is gone without a word is noticed after this long, twice.
const PING_EVERY: Duration = Duration::from_secs(5);

/// Of a refusal's text, as much as a person reads.
const MAX_TEXT: usize = 4 << 10;

/// Why a channel can't be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("can't read {0}: {1}")]
    File(PathBuf, String),
    #[error("{0} is no address: write https://HOST:PORT")]
    Address(String),
    #[error("can't connect to {0}: {1}")]
    Tcp(String, io::Error),
    #[error("TLS with {0}: {1}")]
    Tls(String, io::Error),
    #[error("no answer from {0} within {TIMEOUT:?}")]
    Timeout(String),
    #[error("HTTP/2 with {0}: {1}")]
    Http(String, hyper::Error),
}

/// What is needed to reach the operator, as its files say at this moment.
pub(super) struct Endpoint {
    url: Uri,
    /// The name in its certificate: the Service's, also where a redirect leads to a replica.
    name: ServerName<'static>,
    tls: TlsConnector,
    authorization: HeaderValue,
}

/// The operator's answer.
pub(super) struct Opened {
    pub(super) status: StatusCode,
    pub(super) body: Incoming,
    pub(super) connection: AbortOnDropHandle<()>,
    headers: http::HeaderMap,
}

// === impl Endpoint ===

impl Endpoint {
    pub(super) async fn read(config: &ChannelConfig, trust: &Trust) -> Result<Self, ConnectError> {
        let configured = configured(&config.ca).await;
        let roots = match (configured, trust.learned()) {
            (Ok(mut roots), Some(learned)) => {
                roots.extend(learned.roots.iter().cloned());
                roots
            }
            (Ok(roots), None) => roots,
            // What the operator itself has said is enough.
            (Err(_), Some(learned)) => learned,
            (Err(error), None) => return Err(error),
        };
        let wrong = |path: &PathBuf, error: &dyn std::fmt::Display| {
            ConnectError::File(path.clone(), error.to_string())
        };
        let token = tokio::fs::read_to_string(&config.token).await;
        let token = token.map_err(|error| wrong(&config.token, &error))?;
        let authorization = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
        let mut authorization = authorization
            .map_err(|_| wrong(&config.token, &"a token has no spaces or line ends"))?;
        authorization.set_sensitive(true);

        let host = config.url.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| ConnectError::Address(config.url.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring speaks the default versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            url: config.url.clone(),
            name,
            tls: TlsConnector::from(Arc::new(tls)),
            authorization,
        })
    }

    /// The operator's own address.
    pub(super) fn own_address(&self) -> Authority {
        let authority = self.url.authority().cloned();
        authority.unwrap_or_else(|| Authority::from_static("localhost:443"))
    }

    /// Opens the channel at an address; `lines` is what we say on it.
    pub(super) async fn open(
        &self,
        address: &Authority,
        lines: mpsc::Receiver<Bytes>,
    ) -> Result<Opened, ConnectError> {
        tokio::time::timeout(TIMEOUT, self.open_untimed(address, lines))
            .await
            .unwrap_or_else(|_| Err(ConnectError::Timeout(address.to_string())))
    }

    async fn open_untimed(
        &self,
        address: &Authority,
        lines: mpsc::Receiver<Bytes>,
    ) -> Result<Opened, ConnectError> {
        let shown = address.to_string();
        let host = address.host().trim_start_matches('[').trim_end_matches(']');
        let port = address.port_u16().unwrap_or(443);
        let stream = TcpStream::connect((host, port)).await;
        let stream = stream.map_err(|error| ConnectError::Tcp(shown.clone(), error))?;
        // A policy must be in force within a second, not after the next full packet.
        let _ = stream.set_nodelay(true);
        let stream = self.tls.connect(self.name.clone(), stream).await;
        let stream = stream.map_err(|error| ConnectError::Tls(shown.clone(), error))?;
        let http = |error| ConnectError::Http(shown.clone(), error);
        let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_EVERY)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(http)?;
        let connection = AbortOnDropHandle::new(tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "channel connection ended");
            }
        }));
        let frames = ReceiverStream::new(lines).map(|line| Ok::<_, Infallible>(Frame::data(line)));
        let request = Request::post(self.target())
            .header(header::AUTHORIZATION, self.authorization.clone())
            .header(header::CONTENT_TYPE, "application/x-ndjson")
            .body(StreamBody::new(frames))
            .expect("a URI and known headers make a request");
        let response = sender.send_request(request).await.map_err(http)?;
        let (parts, body) = response.into_parts();
        Ok(Opened {
            status: parts.status,
            headers: parts.headers,
            body,
            connection,
        })
    }

    fn target(&self) -> Uri {
        Uri::builder()
            .scheme("https")
            .authority(self.own_address())
            .path_and_query("/v1/channel")
            .build()
            .expect("scheme, authority and path make a URI")
    }
}

async fn configured(ca: &Authorities) -> Result<RootCertStore, ConnectError> {
    let (pem, origin) = match ca {
        Authorities::File(path) => {
            let pem = tokio::fs::read(path).await;
            let wrong = |error: io::Error| ConnectError::File(path.clone(), error.to_string());
            (pem.map_err(wrong)?, path.clone())
        }
        Authorities::Pem(pem) => (pem.clone().into_bytes(), "channel.caPem".into()),
    };
    roots(&pem).map_err(|error| ConnectError::File(origin, error))
}

// === impl Opened ===

impl Opened {
    /// Where a redirect leads.
    pub(super) fn location(&self) -> Option<Authority> {
        let location = self.headers.get(header::LOCATION)?.to_str().ok()?;
        location.parse::<Uri>().ok()?.authority().cloned()
    }

    /// The text of a refusal.
    pub(super) async fn text(self) -> String {
        let body = Limited::new(self.body, MAX_TEXT).collect();
        match tokio::time::timeout(TIMEOUT, body).await {
            Ok(Ok(body)) => String::from_utf8_lossy(&body.to_bytes()).trim().to_owned(),
            _ => "no text".to_owned(),
        }
    }
}
