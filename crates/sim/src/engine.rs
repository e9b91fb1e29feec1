//! A simulated engine behind vLLM's HTTP face: what the demo, the tests and the benches put in the
//! place of a GPU.
//!
//! It answers OpenAI's chat and completion requests with meaningless words at the pace of the
//! [`crate::model`], streamed or not, shows vLLM's metrics page, and behaves as vLLM 0.32 was seen
//! to behave where a proxy can tell the difference: a stream's head is sent at once while the
//! request waits; its role event comes with the first token; there is one event per token, also
//! for tokens without text; a client that leaves frees its seat at once and is counted nowhere.

mod answer;
mod error;
mod histogram;
mod live;
mod metrics;
mod request;
mod routes;
mod stream;

pub use request::DEFAULT_OUTPUT_TOKENS;

use crate::model::{Engine, Profile, ProfileError, SchedulingPolicy};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use live::Live;
use std::{io, time::Duration};
use tokio::net::TcpListener;
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
}

/// Serves until `stop`. Then no connection is accepted any more, streams end with an error event
/// and `[DONE]`, waiting clients get a 500: what vLLM does on SIGTERM.
///
/// # Errors
/// The profile contradicts itself. Errors of single connections end those only.
pub async fn serve(
    listener: TcpListener,
    options: Options,
    stop: CancellationToken,
) -> Result<(), ProfileError> {
    let max_model_len = options.profile.max_model_len;
    let live = Live::new(Engine::new(options.profile, options.policy)?);
    let router = routes::router(live.clone(), &options.model, max_model_len);
    let connections = GracefulShutdown::new();
    let accept = async {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    pause_after(&error).await;
                    continue;
                }
            };
            // Tokens are small writes that mustn't wait for each other.
            let _ = stream.set_nodelay(true);
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
