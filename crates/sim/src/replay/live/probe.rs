//! Whether an endpoint is there, and which models it has, before a whole trace is sent to it.

use crate::load::in_full;
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use std::time::Duration;

/// Longer than any endpoint needs that could serve requests.
const PATIENCE: Duration = Duration::from_secs(10);
/// A longer list of models is none.
const MOST_BYTES: usize = 1 << 20;

/// Why an endpoint can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No connection, or no answer.
    #[error("can't reach {url}: {why}; start the endpoint, or write another --live URL")]
    Unreachable {
        /// Where.
        url: Uri,
        /// What the connection said.
        why: String,
    },
    /// It wants a key, or another one.
    #[error("{url} answers {status}; set FAIRTIDE_API_KEY to a key that it takes")]
    Key {
        /// Where.
        url: Uri,
        /// What it answers.
        status: StatusCode,
    },
    /// It is there and doesn't serve.
    #[error("{url}v1/models answers {status}: it isn't ready; try again when it is")]
    NotReady {
        /// Where.
        url: Uri,
        /// What it answers.
        status: StatusCode,
    },
}

/// The first model of an endpoint; `None`: it doesn't tell.
pub(super) async fn first_model(
    url: &Uri,
    key: Option<&str>,
) -> Result<Option<String>, ProbeError> {
    let unreachable = |why: String| ProbeError::Unreachable {
        url: url.clone(),
        why,
    };
    let answer = tokio::time::timeout(PATIENCE, ask(url, key)).await;
    let answer = answer.map_err(|_| unreachable(format!("no answer in {PATIENCE:?}")))?;
    let (status, body) = answer.map_err(unreachable)?;
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(ProbeError::Key {
            url: url.clone(),
            status,
        }),
        status if status.is_server_error() => Err(ProbeError::NotReady {
            url: url.clone(),
            status,
        }),
        _ => {
            let models: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
            let first = models.and_then(|models| Some(models["data"][0]["id"].as_str()?.into()));
            Ok(first)
        }
    }
}

async fn ask(url: &Uri, key: Option<&str>) -> Result<(StatusCode, Bytes), String> {
    let mut request = Request::get(format!("{url}v1/models"));
    if let Some(key) = key {
        request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
    }
    let request = request.body(Empty::<Bytes>::new());
    let request = request.map_err(|error| error.to_string())?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(request).await;
    let response = response.map_err(|error| in_full(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MOST_BYTES).collect();
    let body = body.await.map_err(|error| in_full(error.as_ref()))?;
    Ok((status, body.to_bytes()))
}
