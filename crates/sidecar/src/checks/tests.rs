use super::*;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{body::Frame, body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::future::Future;
use tokio::net::TcpListener;

/// Serves each request by `answer`, over HTTP/1 and HTTP/2.
async fn engine<F, R, B>(answer: F) -> String
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            let service = service_fn(move |request| {
                let answered = answer(request);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            tokio::spawn(async move {
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    address
}

async fn ask(upstream: &str, action: CheckAction) -> Answer {
    let check = bootstrap::Check {
        upstream: upstream.to_owned(),
        action,
        timeout_seconds: 1,
    };
    Check::new(&check).expect("a check").ask().await
}

fn http(path: &str, headers: &[(&str, &str)]) -> CheckAction {
    CheckAction::Http {
        path: path.to_owned(),
        headers: headers
            .iter()
            .map(|(name, value)| bootstrap::Header {
                name: (*name).to_owned(),
                value: (*value).to_owned(),
            })
            .collect(),
    }
}

#[tokio::test]
async fn http_is_asked_with_the_users_path_query_and_headers() {
    let address = engine(|request| async move {
        let host = request.headers().get("host").cloned();
        let key = request.headers().get("authorization").cloned();
        let good = request.uri() == "/ready?full=1"
            && host.is_some_and(|host| host == "model.example")
            && key.is_some_and(|key| key == "Bearer probe");
        let mut answer = Response::new(Full::<Bytes>::default());
        *answer.status_mut() = match good {
            true => StatusCode::FOUND,
            false => StatusCode::INTERNAL_SERVER_ERROR,
        };
        answer
    })
    .await;
    let headers = [("Host", "model.example"), ("authorization", "Bearer probe")];
    let good = ask(&address, http("/ready?full=1", &headers)).await;
    assert_eq!(good, Answer::Good, "a redirect is good, as for the kubelet");
    let Answer::Bad(why) = ask(&address, http("/ready?full=1", &[])).await else {
        panic!("it lacks its key");
    };
    assert!(why.contains("500"), "{why}");
}

#[tokio::test]
async fn a_refused_connection_is_bad_and_silence_is_late() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    assert_eq!(ask(&address, CheckAction::Tcp).await, Answer::Good);
    assert_eq!(ask(&address, http("/health", &[])).await, Answer::Late);
    drop(listener);
    assert!(matches!(
        ask(&address, CheckAction::Tcp).await,
        Answer::Bad(_)
    ));
    let refused = ask(&address, http("/health", &[])).await;
    assert!(matches!(refused, Answer::Bad(_)), "{refused:?}");
}

#[tokio::test]
async fn grpcs_health_service_is_asked() {
    let address = engine(|request| async move {
        let body = request.into_body().collect().await.expect("a body");
        let body = body.to_bytes();
        // HealthCheckRequest { service: "ready" }, framed.
        let known = body == b"\0\0\0\0\x07\x0a\x05ready"[..];
        let status = if known { 1 } else { 2 };
        let message = Bytes::from(vec![0, 0, 0, 0, 2, 8, status]);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let frames = [Frame::data(message), Frame::trailers(trailers)];
        let frames = tokio_stream::iter(frames.map(Ok::<_, Infallible>));
        Response::new(StreamBody::new(frames))
    })
    .await;
    let grpc = |service: &str| CheckAction::Grpc {
        service: service.to_owned(),
    };
    assert_eq!(ask(&address, grpc("ready")).await, Answer::Good);
    let other = ask(&address, grpc("other")).await;
    assert!(matches!(other, Answer::Bad(_)), "{other:?}");
}
