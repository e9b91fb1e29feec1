//! gRPC's health service, by hand: one message of one field each way is less than a gRPC library.

use super::{Answer, causes};
use crate::dial::EngineAddress;
use bytes::{BufMut, Bytes, BytesMut};
use http::{Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio_util::task::AbortOnDropHandle;

/// `SERVING` in `HealthCheckResponse.status`, the first field.
const SERVING: &[u8] = &[0x08, 0x01];

/// Larger than any answer of the health service.
const MAX_ANSWER: usize = 4 << 10;

pub(super) async fn ask(engine: &EngineAddress, service: &str) -> Answer {
    match call(engine, service).await {
        Ok(message) if message == SERVING => Answer::Good,
        Ok(message) => Answer::Bad(format!("the health service answers {message:?}")),
        Err(error) => Answer::Bad(error),
    }
}

async fn call(engine: &EngineAddress, service: &str) -> Result<Bytes, String> {
    let wire = engine.connect().await.map_err(|error| causes(&error))?;
    let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(wire)).await;
    let (mut sender, connection) = shaken.map_err(|error| causes(&error))?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let uri = format!("http://{}/grpc.health.v1.Health/Check", engine.authority());
    let request = Request::post(uri)
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(Full::new(framed(service)))
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await;
    let answer = answer.map_err(|error| causes(&error))?;
    let status = answer.headers().get("grpc-status").cloned();
    let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(|error| error.to_string())?;
    let trailer = body.trailers().and_then(|t| t.get("grpc-status").cloned());
    let status = trailer.or(status);
    if status.as_ref().is_none_or(|status| status != "0") {
        return Err(format!("grpc-status {status:?}"));
    }
    let bytes = body.to_bytes();
    // One byte for compression, four for the length.
    Ok(bytes.slice(bytes.len().min(5)..))
}

/// `HealthCheckRequest { service }` in a frame.
fn framed(service: &str) -> Bytes {
    let mut message = BytesMut::new();
    if !service.is_empty() {
        message.put_u8(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            message.put_u8(length as u8 | 0x80);
            length >>= 7;
        }
        message.put_u8(length as u8);
        message.put_slice(service.as_bytes());
    }
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(message.len() as u32);
    frame.put_slice(&message);
    frame.freeze()
}
