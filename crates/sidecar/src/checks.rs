//! Asks the engine how it is, in the way in which its user wrote it for the kubelet.

mod grpc;
#[cfg(test)]
mod tests;

use crate::dial::{Dial, EngineAddress};
use bytes::Bytes;
use fairtide_policy::{
    Engine,
    bootstrap::{self, CheckAction},
};
use http::{HeaderName, HeaderValue, Request, header};
use http_body_util::Empty;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use std::{fmt, time::Duration};

/// The kubelet's own default of one second is too short for an engine under load.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// One way to ask one engine.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    engine: EngineAddress,
    action: CheckAction,
    timeout: Duration,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// As it should be.
    Good,
    /// None in time: perhaps the engine is only busy.
    Late,
    /// A connection refused or a wrong answer: there is no doubt.
    Bad(String),
}

// === impl Check ===

impl Check {
    /// What the bootstrap says.
    pub(crate) fn new(check: &bootstrap::Check) -> Result<Self, String> {
        let engine = check.upstream.parse();
        let engine = engine.map_err(|error| format!("upstream {:?}: {error}", check.upstream))?;
        Ok(Self {
            engine,
            action: check.action.clone(),
            timeout: Duration::from_secs(u64::from(check.timeout_seconds.max(1))),
        })
    }

    /// The engine's own default: all that are known here have `/health`. Of an unknown program
    /// nothing is asked but that it listens.
    pub(crate) fn default_of(engine: EngineAddress, kind: Option<Engine>) -> Self {
        let path = "/health".to_owned();
        let headers = Vec::new();
        Self {
            engine,
            action: match kind {
                Some(_) => CheckAction::Http { path, headers },
                None => CheckAction::Tcp,
            },
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// Asks once.
    pub(crate) async fn ask(&self) -> Answer {
        let asked = async {
            match &self.action {
                CheckAction::Tcp => match self.engine.connect().await {
                    Ok(_) => Answer::Good,
                    Err(error) => Answer::Bad(error.to_string()),
                },
                CheckAction::Http { path, headers } => self.http(path, headers).await,
                CheckAction::Grpc { service } => grpc::ask(&self.engine, service).await,
            }
        };
        let answer = tokio::time::timeout(self.timeout, asked).await;
        answer.unwrap_or(Answer::Late)
    }

    async fn http(&self, path: &str, headers: &[bootstrap::Header]) -> Answer {
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(http::uri::Scheme::HTTP);
        uri.authority = Some(self.engine.authority());
        let slash = if path.starts_with('/') { "" } else { "/" };
        uri.path_and_query = format!("{slash}{path}").parse().ok();
        let Ok(uri) = http::Uri::from_parts(uri) else {
            return Answer::Bad(format!("{path:?} is no path"));
        };
        let agent = concat!("fairtide-sidecar/", env!("CARGO_PKG_VERSION"));
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = uri;
        let own = request.headers_mut();
        own.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        own.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        for written in headers {
            let name = HeaderName::try_from(&written.name);
            let value = HeaderValue::try_from(&written.value);
            if let (Ok(name), Ok(value)) = (name, value) {
                own.insert(name, value);
            }
        }
        // A connection of its own each time, as the kubelet does: a pooled one may be stale.
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(Dial::new(self.engine.clone(), self.timeout));
        match client.request(request).await {
            Ok(answer) if (200..400).contains(&answer.status().as_u16()) => Answer::Good,
            Ok(answer) => Answer::Bad(format!("status {}", answer.status())),
            Err(error) => Answer::Bad(causes(&error)),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            CheckAction::Tcp => write!(f, "tcp {}", self.engine),
            CheckAction::Http { path, .. } => write!(f, "GET {path} on {}", self.engine),
            CheckAction::Grpc { service } => write!(f, "grpc health {service:?} {}", self.engine),
        }
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
