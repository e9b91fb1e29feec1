//! Where connections come in: HTTP/1.1 and HTTP/2 without TLS (h2c) on one port.
//!
//! `half_close` stays off: a client that closes its writing side has left as far as we can tell,
//! and its seat is worth more than the few tools that read on after that. A timer must be set, or
//! hyper's own timeouts do nothing.

use crate::{lifecycle::Phase, path::RequestPath, self_check::Callers};
use http::{Request, Version};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long a connection may be idle or slow with its head. Longer than the 60 s for which load
/// balancers keep theirs, so that it is them who close.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// A gateway may bring all its requests over one HTTP/2 connection: as many as a queue holds.
const MAX_STREAMS: u32 = 16_384;

/// How often an HTTP/2 peer that is silent must show that it lives, and how soon.
const PING_EVERY: Duration = Duration::from_secs(20);

/// Pause after an `accept` that failed, as it does when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How connections are to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    /// No further connection is taken, and those there are end with their present requests.
    pub(crate) closing: CancellationToken,
    /// Counts those that are open.
    pub(crate) open: TaskTracker,
    /// Who came, while the self-check looks for its own connections.
    pub(crate) callers: Callers,
}

/// Takes connections until they are to close.
pub(crate) async fn accept(
    listener: TcpListener,
    path: Arc<RequestPath>,
    connections: Connections,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = connections.closing.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                connections.callers.note(peer);
                let serving = serve(stream, peer, path.clone(), connections.closing.clone());
                connections.open.spawn(serving);
            }
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    path: Arc<RequestPath>,
    closing: CancellationToken,
) {
    // Small events must leave at once.
    let _ = stream.set_nodelay(true);
    let peer = peer.ip().to_canonical();
    let http2 = Arc::new(AtomicBool::new(false));
    let lifecycle = path.lifecycle.clone();
    let seen = http2.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let path = path.clone();
        seen.store(request.version() == Version::HTTP_2, Ordering::Relaxed);
        async move { Ok::<_, Infallible>(path.answer(request, peer).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .preserve_header_case(true)
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // HTTP/2 is told at once to go elsewhere with what is new. HTTP/1 learns it from its next
    // answer: closed while idle, it might lose a request that is on its way.
    let goes = async {
        tokio::select! {
            () = closing.cancelled() => {}
            () = lifecycle.reached(Phase::Closing) => {
                if !http2.load(Ordering::Relaxed) {
                    closing.cancelled().await;
                }
            }
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = goes => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection broke off");
    }
}
