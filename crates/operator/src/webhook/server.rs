//! HTTPS for the API server: one path, bounded bodies and times, and no panic that reaches it.

use super::{PATH, Webhook};
use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, FromRequest, Request, State},
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use http::{StatusCode, header};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// An API server takes no request above 3 MiB, and wraps it in little.
const LARGEST: usize = 8 << 20;

/// From the connection to the end of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// From the head of a request to the end of its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// API servers and the Service still know a replica that is about to end: it goes on this long.
const LAME_DUCK: Duration = Duration::from_secs(3);

/// How long answers get to end after that.
const GOODBYE: Duration = Duration::from_secs(2);

// === impl Webhook ===

impl Webhook {
    /// Answers API servers until the operator ends.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, tls: Arc<rustls::ServerConfig>) {
        let acceptor = TlsAcceptor::from(tls);
        let stop = self.stop.clone();
        let routes = Router::new()
            .route(PATH, post(asked))
            .layer(DefaultBodyLimit::max(LARGEST))
            .with_state(self);
        let connections = GracefulShutdown::new();
        let end = async {
            stop.cancelled().await;
            tokio::time::sleep(LAME_DUCK).await;
        };
        let mut end = std::pin::pin!(end);
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // A client that sends half a head holds a connection, not for long.
        builder.http1().timer(TokioTimer::new());
        builder.http2().timer(TokioTimer::new());
        let builder = Arc::new(builder);
        loop {
            let stream = tokio::select! {
                () = &mut end => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "connection not accepted");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
            };
            let (acceptor, builder) = (acceptor.clone(), builder.clone());
            let service = TowerToHyperService::new(routes.clone());
            let watcher = connections.watcher();
            tokio::spawn(async move {
                let Some(stream) = handshake(stream, acceptor).await else {
                    return;
                };
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                if let Err(error) = watcher.watch(connection.into_owned()).await {
                    tracing::debug!(%error, "connection broke");
                }
            });
        }
        drop(listener);
        let _ = tokio::time::timeout(GOODBYE, connections.shutdown()).await;
    }
}

async fn handshake(stream: TcpStream, acceptor: TlsAcceptor) -> Option<TlsStream<TcpStream>> {
    let _ = stream.set_nodelay(true);
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake of the webhook failed");
            None
        }
        Err(_) => None,
    }
}

async fn asked(State(webhook): State<Arc<Webhook>>, request: Request) -> Response {
    let given = request.headers().get(header::CONTENT_TYPE);
    let json = given.is_some_and(|given| given.as_bytes().starts_with(b"application/json"));
    if !json {
        let why = "this takes an AdmissionReview as content-type: application/json";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into_response();
    }
    let body = Bytes::from_request(request, &());
    let body = match tokio::time::timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => body,
        Ok(Err(refused)) => return refused.into_response(),
        Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    // A fault of ours must cost one pod's try and not the connection of all others.
    let answer = std::panic::catch_unwind(AssertUnwindSafe(|| webhook.answer(&body)));
    match answer {
        Ok(Ok(answer)) => Json(answer).into_response(),
        Ok(Err(why)) => (StatusCode::BAD_REQUEST, why).into_response(),
        Err(_) => {
            webhook.count("failed", "Panic");
            let why = "the webhook failed on this pod; the operator's log has the place";
            (StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
        }
    }
}
