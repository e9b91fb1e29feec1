//! A client of engines and sidecars: one connection per request, so that dropping the answer is a
//! client that leaves.

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::{net::TcpStream, task::AbortHandle};

/// An answer whose head has arrived.
#[derive(Debug)]
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    body: Incoming,
    _connection: Connection,
}

/// Closes the connection on drop.
#[derive(Debug)]
struct Connection(AbortHandle);

/// `POST`s a body and waits for the answer's head. Dropped before, the client has left.
pub async fn http_post(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> anyhow::Result<Answer> {
    let mut request = Request::post(path)
        .header(header::HOST, address.to_string())
        .header(header::CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(address, request.body(Full::new(body.into()))?).await
}

/// `GET http://{authority}{path}` as a whole.
pub async fn http_get(authority: &str, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
    let address = authority.parse().context("an address with a port")?;
    let request = Request::get(path)
        .header(header::HOST, authority)
        .body(Full::default())?;
    let answer = send(address, request).await?;
    let status = answer.status;
    Ok((status, answer.bytes().await?))
}

async fn send(address: SocketAddr, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
    let stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("connect to {address}"))?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = Connection(tokio::spawn(connection).abort_handle());
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body,
        _connection: connection,
    })
}

// === impl Answer ===

impl Answer {
    /// A header's value; empty where there is none.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The next piece of the body; `None` at its proper end.
    pub async fn piece(&mut self) -> anyhow::Result<Option<Bytes>> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// The whole body, or what is left of it.
    pub async fn bytes(self) -> anyhow::Result<Bytes> {
        Ok(self.body.collect().await?.to_bytes())
    }

    /// The whole body as JSON.
    pub async fn json(self) -> anyhow::Result<serde_json::Value> {
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes)
            .with_context(|| format!("no JSON: {}", String::from_utf8_lossy(&bytes)))
    }
}

// === impl Connection ===

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}
