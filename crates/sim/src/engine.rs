//! A simulated engine behind the HTTP face of vLLM, TGI or SGLang: what the demo, the tests and the
//! benches put in the place of a GPU.
//!
//! It answers OpenAI's chat and completion requests, and the engines' own, with meaningless words
//! at the pace of the [`crate::model`], streamed or not, shows the metrics page of a version, and
//! behaves as the engines do where a proxy can tell the difference: a stream's head is sent at once
//! while the request waits, so that a refusal may come inside a 200; there is one event per token,
//! also for tokens without text; a client that leaves frees its seat at once.
//!
//! vLLM 0.32 was watched; TGI 3 and SGLang 0.5 are as their sources and documents have them.

mod answer;
mod error;
mod histogram;
mod live;
mod metrics;
mod request;
mod routes;
mod stream;
mod version;

pub use request::DEFAULT_OUTPUT_TOKENS;
pub use version::{Imitated, Kind, UnknownVersion, Version};

use crate::model::{Engine, Profile, ProfileError, SchedulingPolicy};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use live::Live;
use std::{future::Future, io, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

/// How long an idle connection is kept, as by uvicorn.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// How long the last bytes may take when the engine stops.
const GOODBYE: Duration = Duration::from_secs(1);

/// What kind of engine to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its limits and speed.
    pub profile: Profile,
    /// The order of its waiting queue.
    pub policy: SchedulingPolicy,
    /// The name under which it serves its model.
    pub model: String,
    /// Whose face it has.
    pub imitated: Imitated,
    /// With more requests than these it is overloaded, and says so as that engine does; `None`:
    /// never. vLLM and TGI count all that they have, SGLang those that wait.
    pub most_requests: Option<usize>,
}

/// Where connections come from: a port, or pipes within the process.
pub trait Accept: Send {
    /// One connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

/// Serves until `stop`. Then no connection is accepted any more, streams end with an error event
/// and `[DONE]`, waiting clients get a 500: what vLLM does on SIGTERM.
///
/// # Errors
/// The profile contradicts itself. Errors of single connections end those only.
pub async fn serve(
    mut listener: impl Accept,
    options: Options,
    stop: CancellationToken,
) -> Result<(), ProfileError> {
    let profile = options.profile.clone();
    let engine = Engine::new(options.profile, options.policy)?;
    let live = Live::new(engine, options.imitated, options.most_requests);
    let router = routes::router(routes::Face {
        live: live.clone(),
        imitated: options.imitated,
        model: options.model.into(),
        max_model_len: profile.max_model_len,
        kv_tokens: profile.kv_tokens,
        max_num_seqs: profile.max_num_seqs,
        most_requests: options.most_requests,
    });
    let connections = GracefulShutdown::new();
    let accept = async {
        loop {
            let stream = match listener.accept().await {
                Ok(stream) => stream,
                Err(error) => {
                    pause_after(&error).await;
                    continue;
                }
            };
            let service = TowerToHyperService::new(router.clone());
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(KEEP_ALIVE)
                .serve_connection(TokioIo::new(stream), service);
            let connection = connections.watch(connection);
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "connection ended");
                }
            });
        }
    };
    tokio::select! {
        () = accept => {}
        () = live.run() => {}
        () = stop.cancelled() => {}
    }
    drop(listener);
    live.stop();
    // Those that don't read their last bytes are left behind.
    let _ = tokio::time::timeout(GOODBYE, connections.shutdown()).await;
    Ok(())
}

/// Out of file descriptors, say: trying again at once would only burn the processor.
async fn pause_after(error: &io::Error) {
    tracing::warn!(%error, "can't accept a connection");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

// === impl Accept ===

impl Accept for TcpListener {
    type Io = TcpStream;

    async fn accept(&mut self) -> io::Result<TcpStream> {
        let (stream, _) = TcpListener::accept(self).await?;
        // Tokens are small writes that mustn't wait for each other.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl Accept for mpsc::UnboundedReceiver<DuplexStream> {
    type Io = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        match self.recv().await {
            Some(stream) => Ok(stream),
            None => std::future::pending().await,
        }
    }
}
