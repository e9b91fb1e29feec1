//! The channel's server: sidecars connect, say who they are, and get their policy.
//!
//! HTTP/2 over TLS, one connection and one request (`POST /v1/channel`) per sidecar: its body
//! carries the sidecar's messages, the response's body ours. Plain hyper and not a router, because
//! a slow reader's connection must be cut at once, whatever its buffers hold.

pub mod auth;
pub mod ca;
mod lines;
mod refusal;
mod stream;
pub mod tls;
pub mod trust;

use self::{
    auth::{Identity, Tokens},
    ca::Authorities,
    lines::Lines,
    refusal::Refusal,
    stream::Stream,
};
use crate::{
    fleet::{Fleet, Missing},
    lease::Claim,
    metrics::{Cause, Metrics},
};
use bytes::Bytes;
use fairtide_policy::{Message, PROTOCOL_VERSION};
use fairtide_resolve::ObjectKey;
use futures::StreamExt;
use http::{HeaderValue, Method, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// From the connection to the end of the TLS handshake, and from the request to its hello.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// A dead peer is noticed after twice this.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// How long a pod that is not known yet is waited for: its sidecar may be faster than our watch.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long streams get to end when the operator does.
const GOODBYE: Duration = Duration::from_secs(2);

type Body = BoxBody<Bytes, Infallible>;

/// What decides who may open a channel, and what they get.
pub struct Channel {
    /// The pods.
    pub fleet: Arc<Fleet>,
    /// Who knows tokens.
    pub tokens: Arc<dyn Tokens>,
    /// Whether this replica may push.
    pub claim: watch::Receiver<Claim>,
    /// Whom sidecars shall trust.
    pub authorities: watch::Receiver<Arc<Authorities>>,
    /// Where things are counted.
    pub metrics: Arc<Metrics>,
    /// Fires when the operator ends.
    pub stop: CancellationToken,
}

// === impl Channel ===

impl Channel {
    /// Accepts sidecars until the operator ends, then lets their streams end.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, tls: Arc<rustls::ServerConfig>) {
        let acceptor = TlsAcceptor::from(tls);
        let connections = TaskTracker::new();
        loop {
            let stream = tokio::select! {
                () = self.stop.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Out of file descriptors, most likely: others may end meanwhile.
                        tracing::warn!(%error, "connection not accepted");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
            };
            connections.spawn(self.clone().connection(stream, acceptor.clone()));
        }
        drop(listener);
        connections.close();
        if tokio::time::timeout(GOODBYE, connections.wait())
            .await
            .is_err()
        {
            tracing::warn!("some channels didn't end in time");
        }
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, acceptor: TlsAcceptor) {
        // A snapshot is one small write that must not wait for the next.
        let _ = stream.set_nodelay(true);
        let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                self.count("tls");
                tracing::debug!(%error, "TLS handshake failed");
                return;
            }
            Err(_) => {
                self.count("tls");
                return;
            }
        };
        let cut = CancellationToken::new();
        let service = service_fn({
            let (channel, cut) = (self.clone(), cut.clone());
            move |request| {
                let (channel, cut) = (channel.clone(), cut.clone());
                async move { Ok::<_, Infallible>(channel.respond(request, cut).await) }
            }
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .max_concurrent_streams(4)
            .max_header_list_size(32 << 10)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            result = connection.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "connection broke");
                }
            }
            () = cut.cancelled() => {}
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(GOODBYE, connection).await;
            }
        }
    }

    async fn respond(&self, request: Request<Incoming>, cut: CancellationToken) -> Response<Body> {
        match self.open(request, cut).await {
            Ok(response) => response,
            Err(refusal) => {
                self.count(refusal.cause());
                tracing::info!(status = refusal.status().as_u16(), reason = %refusal, "channel refused");
                refusal.response().map(BodyExt::boxed)
            }
        }
    }

    async fn open(
        &self,
        request: Request<Incoming>,
        cut: CancellationToken,
    ) -> Result<Response<Body>, Refusal> {
        if request.uri().path() != "/v1/channel" || request.method() != Method::POST {
            return Err(Refusal::NoSuchPath);
        }
        self.holds_lease()?;
        let token = bearer(&request).ok_or(Refusal::NoToken)?;
        let identity = self.tokens.identify(token).await?;
        let mut lines = Lines::new(request.into_body());
        let hello = read_hello(&mut lines).await?;
        let uid = match &identity {
            Identity::Shared => None,
            Identity::Pod { pod, uid } if *pod == hello.pod => Some(uid.as_str()),
            Identity::Pod { pod, .. } => {
                return Err(Refusal::OtherPod {
                    token_of: pod.clone(),
                    hello: hello.pod,
                });
            }
        };
        let link = match self.fleet.connect(&hello.pod, uid, PATIENCE).await {
            Ok(link) => link,
            Err(Missing::Pod) => return Err(Refusal::UnknownPod(hello.pod)),
            Err(Missing::Uid) => return Err(Refusal::EarlierPod(hello.pod)),
        };
        tracing::info!(pod = %hello.pod, sidecar = %hello.sidecar_version, applied = hello.applied, "channel opened");
        link.greeted(hello.sidecar_version, hello.applied);
        let (out, body) = mpsc::channel(1);
        let stream = Stream {
            link,
            lines,
            out,
            claim: self.claim.clone(),
            authorities: self.authorities.clone(),
            stop: self.stop.clone(),
            cut,
            metrics: self.metrics.clone(),
        };
        tokio::spawn(stream.run());
        let frames = ReceiverStream::new(body).map(|line| Ok(Frame::data(line)));
        let mut response = Response::new(BodyExt::boxed(StreamBody::new(frames)));
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/x-ndjson"),
        );
        Ok(response)
    }

    fn holds_lease(&self) -> Result<(), Refusal> {
        match &*self.claim.borrow() {
            Claim::Held => Ok(()),
            Claim::Other {
                address: Some(address),
                ..
            } => Err(Refusal::Elsewhere(address.clone())),
            Claim::Other { identity, .. } => Err(Refusal::NotNow(format!(
                "the lease is held by {identity}, which doesn't say where its channel is (--channel-advertise)"
            ))),
            Claim::Unknown => Err(Refusal::NotNow(
                "no replica is known to hold the lease".to_owned(),
            )),
        }
    }

    fn count(&self, cause: &'static str) {
        let cause = Cause { cause };
        self.metrics.channel_errors.get_or_create(&cause).inc();
    }
}

struct Hello {
    pod: ObjectKey,
    sidecar_version: String,
    applied: Option<String>,
}

async fn read_hello(lines: &mut Lines<Incoming>) -> Result<Hello, Refusal> {
    let first = match tokio::time::timeout(HANDSHAKE_TIMEOUT, lines.next()).await {
        Ok(Ok(first)) => first,
        Ok(Err(error)) => return Err(Refusal::NoHello(error.to_string())),
        Err(_) => return Err(Refusal::NoHello("nothing came in time".to_owned())),
    };
    match first {
        Some(Message::Hello { v, .. }) if v > PROTOCOL_VERSION => {
            Err(Refusal::TooNew(v, PROTOCOL_VERSION))
        }
        Some(Message::Hello {
            pod,
            sidecar_version,
            applied,
            ..
        }) => Ok(Hello {
            pod: pod_key(&pod).ok_or_else(|| {
                Refusal::NoHello(format!("pod {pod:?} is not of the form NAMESPACE/NAME"))
            })?,
            sidecar_version,
            applied,
        }),
        Some(_) => Err(Refusal::NoHello("it is another message".to_owned())),
        None => Err(Refusal::NoHello("the stream ended".to_owned())),
    }
}

fn pod_key(text: &str) -> Option<ObjectKey> {
    let (namespace, name) = text.split_once('/')?;
    let whole = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
    whole.then(|| ObjectKey::new(namespace, name))
}

fn bearer(request: &Request<Incoming>) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?;
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
