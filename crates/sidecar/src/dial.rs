//! The way to an engine: an address of this pod, or a Unix socket in a folder that both see.

use http::{Uri, uri::Authority};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use std::{
    fmt,
    future::Future,
    io,
    path::PathBuf,
    pin::Pin,
    str::FromStr,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineAddress {
    /// `HOST:PORT`.
    Tcp(Authority),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

/// What is no address of an engine.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("write HOST:PORT, such as 127.0.0.1:8001, or unix:/path/of/socket")]
pub struct NoEngineAddress;

/// Connects to one engine, whatever the URI says.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    address: EngineAddress,
    timeout: Duration,
}

/// A connection to an engine.
#[derive(Debug)]
pub(crate) enum Wire {
    Tcp(TcpStream),
    Unix(UnixStream),
}

// === impl EngineAddress ===

impl EngineAddress {
    /// The name in URIs and `Host` headers that are made here.
    pub(crate) fn authority(&self) -> Authority {
        match self {
            Self::Tcp(authority) => authority.clone(),
            Self::Unix(_) => Authority::from_static("localhost"),
        }
    }

    pub(crate) async fn connect(&self) -> io::Result<Wire> {
        match self {
            Self::Tcp(authority) => {
                let host = authority.host();
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let port = authority.port_u16().unwrap_or(80);
                let stream = TcpStream::connect((host, port)).await?;
                // Small requests must leave at once.
                let _ = stream.set_nodelay(true);
                Ok(Wire::Tcp(stream))
            }
            Self::Unix(path) => Ok(Wire::Unix(UnixStream::connect(path).await?)),
        }
    }
}

impl FromStr for EngineAddress {
    type Err = NoEngineAddress;

    fn from_str(text: &str) -> Result<Self, NoEngineAddress> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(Self::Unix(path.into())),
                false => Err(NoEngineAddress),
            };
        }
        let plain = text.strip_prefix("http://").unwrap_or(text);
        let authority = plain.trim_end_matches('/').parse();
        let authority: Authority = authority.map_err(|_| NoEngineAddress)?;
        if authority.port().is_none() || authority.host().is_empty() || plain.contains('@') {
            return Err(NoEngineAddress);
        }
        Ok(Self::Tcp(authority))
    }
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => authority.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

// === impl Dial ===

impl Dial {
    pub(crate) fn new(address: EngineAddress, timeout: Duration) -> Self {
        Self { address, timeout }
    }
}

impl tower::Service<Uri> for Dial {
    type Response = TokioIo<Wire>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Wire>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { address, timeout } = self.clone();
        Box::pin(async move {
            let wire = tokio::time::timeout(timeout, address.connect()).await;
            Ok(TokioIo::new(wire.map_err(io::Error::from)??))
        })
    }
}

// === impl Wire ===

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_a_port_or_a_socket() {
        for (text, shown) in [
            ("127.0.0.1:8001", "127.0.0.1:8001"),
            ("http://[::1]:8001/", "[::1]:8001"),
            ("unix:/run/engine.sock", "unix:/run/engine.sock"),
        ] {
            let address: EngineAddress = text.parse().expect(text);
            assert_eq!(address.to_string(), shown);
        }
        for text in ["8001", "unix:engine.sock", "http://u:p@h:1", "h", ":1"] {
            assert!(text.parse::<EngineAddress>().is_err(), "{text}");
        }
    }
}
