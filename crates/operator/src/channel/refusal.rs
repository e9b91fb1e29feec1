//! Why a channel is not opened: a status code and one line of JSON that says what to do.

use super::auth::AuthError;
use bytes::Bytes;
use fairtide_api::names::TOKEN_AUDIENCE;
use fairtide_resolve::ObjectKey;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

/// A channel that isn't opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another path.
    #[error("there is only POST /v1/channel here")]
    NoSuchPath,
    /// No `authorization: Bearer`.
    #[error(
        "no token: send 'authorization: Bearer TOKEN' with a token for the audience {TOKEN_AUDIENCE}"
    )]
    NoToken,
    /// The token opens nothing.
    #[error(transparent)]
    Token(#[from] AuthError),
    /// The token is another pod's.
    #[error("the token is bound to pod {token_of}, but hello names pod {hello}; use its own token")]
    OtherPod {
        /// The pod that the token is bound to.
        token_of: ObjectKey,
        /// The pod that hello names.
        hello: ObjectKey,
    },
    /// The token's pod is gone and another has its name.
    #[error("the token is bound to an earlier pod of the name {0}; use the present pod's token")]
    EarlierPod(ObjectKey),
    /// No such pod.
    #[error("pod {0} is not known here; check --pod, or try again when it exists")]
    UnknownPod(ObjectKey),
    /// The first line is no hello.
    #[error("the first line must be a hello: {0}")]
    NoHello(String),
    /// A sidecar that is too new.
    #[error(
        "protocol version {0} is newer than this operator's {1}; upgrade the operator before the sidecars"
    )]
    TooNew(u32, u32),
    /// Another replica has the lease.
    #[error("the lease is held by another replica, at {0}")]
    Elsewhere(String),
    /// No replica is known to have the lease, or it doesn't say where it is.
    #[error("{0}; try again")]
    NotNow(String),
}

// === impl Refusal ===

impl Refusal {
    /// The status code.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NoSuchPath | Self::UnknownPod(_) => StatusCode::NOT_FOUND,
            Self::NoToken | Self::Token(AuthError::Invalid(_)) => StatusCode::UNAUTHORIZED,
            Self::Token(AuthError::NoPod(_)) | Self::OtherPod { .. } | Self::EarlierPod(_) => {
                StatusCode::FORBIDDEN
            }
            Self::NoHello(_) | Self::TooNew(..) => StatusCode::BAD_REQUEST,
            Self::Elsewhere(_) => StatusCode::TEMPORARY_REDIRECT,
            Self::Token(AuthError::Unavailable(_)) | Self::NotNow(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    /// The word for metrics.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::NoSuchPath => "no_such_path",
            Self::NoToken | Self::Token(AuthError::Invalid(_)) => "invalid_token",
            Self::Token(AuthError::NoPod(_)) | Self::OtherPod { .. } | Self::EarlierPod(_) => {
                "other_pod"
            }
            Self::UnknownPod(_) => "unknown_pod",
            Self::NoHello(_) => "no_hello",
            Self::TooNew(..) => "too_new",
            Self::Elsewhere(_) => "elsewhere",
            Self::Token(AuthError::Unavailable(_)) | Self::NotNow(_) => "not_now",
        }
    }

    /// The reply.
    pub fn response(&self) -> Response<Full<Bytes>> {
        let mut line = serde_json::json!({ "error": self.to_string() }).to_string();
        line.push('\n');
        let mut response = Response::new(Full::new(Bytes::from(line)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        match self {
            Self::Elsewhere(address) => {
                let url = format!("{}/v1/channel", address.trim_end_matches('/'));
                if let Ok(url) = HeaderValue::from_str(&url) {
                    headers.insert(header::LOCATION, url);
                }
            }
            Self::NotNow(_) => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}
