//! The admin server: probes and metrics on a listener of their own, so that they answer whatever
//! the traffic port is busy with.
//!
//! ```text
//! /startupz  200 once everything needed was there
//! /readyz    200 while traffic is wanted; else 503 and what is missing
//! /livez     200
//! /metrics   the metric page
//! ```

use crate::{
    Health,
    metrics::{self, Registry},
};
use axum::{
    Router,
    extract::{ConnectInfo, Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::net::TcpListener;

/// The probes and the metric page. More routes are merged into it.
pub fn router(health: Health, registry: Arc<Registry>) -> Router {
    Router::new()
        .route("/startupz", get(startup))
        .route("/readyz", get(ready))
        .route("/livez", get(|| async { "ok\n" }))
        .with_state(health)
        .route("/metrics", get(page))
        .with_state(registry)
}

/// Answers only peers on this machine (`kubectl port-forward` is one): for what tells more than
/// a neighbour on the network should know.
pub fn loopback_only(routes: Router) -> Router {
    routes.layer(middleware::from_fn(from_loopback))
}

/// Serves until `shutdown` resolves.
///
/// # Errors
/// The listener failed.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let service = routes.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service)
        .with_graceful_shutdown(shutdown)
        .await
}

async fn startup(State(health): State<Health>) -> Response {
    if health.is_started() {
        return "ok\n".into_response();
    }
    unavailable(&health)
}

async fn ready(State(health): State<Health>) -> Response {
    if health.is_ready() {
        return "ok\n".into_response();
    }
    unavailable(&health)
}

fn unavailable(health: &Health) -> Response {
    let text = format!("not ready: {}\n", health.missing().join(", "));
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn page(State(registry): State<Arc<Registry>>) -> Response {
    let content_type = [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)];
    (content_type, metrics::encode(&registry)).into_response()
}

async fn from_loopback(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    if is_loopback(peer.ip()) {
        return next.run(request).await;
    }
    let text = "only from this pod: use kubectl port-forward\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

/// Also where an IPv6 listener shows an IPv4 peer as `::ffff:127.0.0.1`.
fn is_loopback(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    async fn ask(routes: Router, path: &str, peer: &str) -> (StatusCode, String) {
        let peer: SocketAddr = peer.parse().expect("an address");
        let request = Request::builder()
            .uri(path)
            .extension(ConnectInfo(peer))
            .body(Body::empty())
            .expect("a request");
        let response = routes.oneshot(request).await.expect("infallible");
        let status = response.status();
        let body = response.into_body().collect().await.expect("a body");
        let text = String::from_utf8(body.to_bytes().to_vec()).expect("text");
        (status, text)
    }

    fn routes(health: &Health) -> Router {
        router(health.clone(), Arc::new(metrics::registry("test", "1")))
    }

    #[tokio::test]
    async fn probes_say_what_is_missing() {
        let health = Health::new(&["policy"]);
        let peer = "10.0.0.1:5";
        let (status, text) = ask(routes(&health), "/readyz", peer).await;
        assert_eq!(status, 503);
        assert!(text.contains("policy"), "{text}");
        assert_eq!(ask(routes(&health), "/startupz", peer).await.0, 503);
        assert_eq!(ask(routes(&health), "/livez", peer).await.0, 200);
        health.set("policy", true);
        assert_eq!(ask(routes(&health), "/readyz", peer).await.0, 200);
        health.drain();
        assert_eq!(ask(routes(&health), "/readyz", peer).await.0, 503);
        assert_eq!(ask(routes(&health), "/startupz", peer).await.0, 200);
    }

    #[tokio::test]
    async fn the_metric_page_is_there() {
        let (status, text) = ask(routes(&Health::new(&[])), "/metrics", "10.0.0.1:5").await;
        assert_eq!(status, 200);
        assert!(text.contains("fairtide_test_build"), "{text}");
    }

    #[tokio::test]
    async fn debug_routes_answer_only_on_loopback() {
        let debug = || loopback_only(Router::new().route("/debug", get(|| async { "secret" })));
        assert_eq!(ask(debug(), "/debug", "10.0.0.1:5").await.0, 403);
        for peer in ["127.0.0.1:5", "[::1]:5", "[::ffff:127.0.0.1]:5"] {
            assert_eq!(ask(debug(), "/debug", peer).await.0, 200, "{peer}");
        }
    }
}
