//! The engine's side: one upstream, HTTP/1.1, bytes as they are.
//!
//! A request is never sent twice once a byte of it has been written: it may have started the GPU.
//! The client library repeats only what found its pooled connection closed before anything was
//! sent. Idle connections live 3 s at most, since uvicorn closes them at 5 s and a request that
//! meets the closing would be lost.

use crate::dial::{Dial, EngineAddress};
use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, Uri, Version, header,
    request::Parts,
    uri::{Authority, PathAndQuery, Scheme},
};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use std::time::Duration;

/// See the module.
const MAX_IDLE: Duration = Duration::from_secs(3);

/// The engine is on the same pod: a connection that isn't there by then won't come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A request's body: read before, or passed on as it comes.
pub(crate) type UpstreamBody = Either<Full<Bytes>, Incoming>;

/// The engine.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    client: Client<Dial, UpstreamBody>,
    authority: Authority,
}

/// Why there is no answer from the engine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForwardError {
    /// No connection: nothing was sent.
    #[error("no connection to the engine")]
    Connect(#[source] hyper_util::client::legacy::Error),
    /// The engine broke off before it answered; it may have worked on the request.
    #[error("the engine broke off before it answered")]
    Broken(#[source] hyper_util::client::legacy::Error),
}

// === impl Upstream ===

impl Upstream {
    pub(crate) fn new(engine: EngineAddress) -> Self {
        let authority = engine.authority();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(MAX_IDLE)
            .http1_preserve_header_case(true)
            .build(Dial::new(engine, CONNECT_TIMEOUT));
        Self { client, authority }
    }

    /// Sends a request whose headers are stripped already. Its target must be
    /// [a path](has_path).
    pub(crate) async fn send(
        &self,
        mut parts: Parts,
        body: UpstreamBody,
    ) -> Result<Response<Incoming>, ForwardError> {
        // HTTP/2 clients name the host in the URI.
        if !parts.headers.contains_key(header::HOST)
            && let Some(authority) = parts.uri.authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            parts.headers.insert(header::HOST, host);
        }
        parts.uri = self.target(parts.uri.path_and_query());
        parts.version = Version::HTTP_11;
        // The interim answer to it has been given by this hop.
        parts.headers.remove(header::EXPECT);
        let request = Request::from_parts(parts, body);
        self.client.request(request).await.map_err(|error| {
            if error.is_connect() {
                ForwardError::Connect(error)
            } else {
                ForwardError::Broken(error)
            }
        })
    }

    fn target(&self, path: Option<&PathAndQuery>) -> Uri {
        let root = || PathAndQuery::from_static("/");
        let mut target = http::uri::Parts::default();
        target.scheme = Some(Scheme::HTTP);
        target.authority = Some(self.authority.clone());
        target.path_and_query = Some(path.cloned().unwrap_or_else(root));
        Uri::from_parts(target).expect("scheme, authority and path make a URI")
    }
}

/// Whether a request names something on a server: not so `CONNECT`, which asks for a tunnel, and
/// `*`, which means the server as a whole.
pub(crate) fn has_path(uri: &Uri) -> bool {
    let path = uri.path_and_query();
    path.is_some_and(|path| path.as_str().starts_with('/'))
}
