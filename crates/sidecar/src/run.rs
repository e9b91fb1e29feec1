//! Puts the parts together, and takes them down again.
//!
//! Start: the policy first, then all listeners; a listener that can't be had ends the process,
//! since traffic on the others would go around it. End: no new work, what is there is finished
//! within the drain time, then connections close and the process leaves.

use crate::{
    accept::{Connections, accept},
    admin,
    admission::Admission,
    body::BodyLimits,
    engine_watch,
    exchange::Observers,
    forward::Upstream,
    in_force::{PolicySeat, Source},
    metrics::Metrics,
    path::RequestPath,
    source::{First, Follow, PolicySource, channel::Channel, manifests::ManifestsError},
};
use fairtide_policy::PolicyError;
use fairtide_telemetry::{Health, admin as admin_server, metrics};
use http::uri::Authority;
use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, task::JoinSet, time::Instant};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

/// How often the scheduler's state is published as metrics.
const PUBLISH_EVERY: Duration = Duration::from_millis(500);

/// What connections are given to flush their last bytes, also when the drain took all its time.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// How long a sidecar that knows no policy waits for one before it is ready nevertheless.
const BOOTSTRAP_PATIENCE: Duration = Duration::from_secs(3);

const POLICY: &str = "policy";
const LISTENERS: &str = "listeners";

/// What to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where traffic is taken.
    pub listen: Vec<SocketAddr>,
    /// Where the engine is.
    pub upstream: Authority,
    /// Where probes, metrics and debug pages are.
    pub admin: SocketAddr,
    /// Where policies come from.
    pub source: PolicySource,
    /// The largest request body, in bytes.
    pub max_body_bytes: u64,
    /// How long requests may take to end once the pod is going away.
    pub drain: Duration,
}

/// Why a sidecar doesn't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The files give no policy.
    #[error(transparent)]
    Manifests(#[from] ManifestsError),
    /// The policy can't be obeyed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// An address can't be had.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// Why a sidecar ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The task that decides ended. Serving on would mean to hold every request for ever.
    #[error("the admission task ended")]
    Admission,
    /// The admin server ended.
    #[error("the admin server ended: {0}")]
    Admin(String),
}

/// A sidecar whose listeners are open.
#[derive(Debug)]
pub struct Sidecar {
    listen: Vec<SocketAddr>,
    admin: SocketAddr,
    drain: Duration,
    health: Health,
    path: Arc<RequestPath>,
    connections: Connections,
    admission: AbortOnDropHandle<()>,
    admin_server: AbortOnDropHandle<io::Result<()>>,
    /// What runs beside, aborted on drop.
    _beside: JoinSet<()>,
}

// === impl Sidecar ===

impl Sidecar {
    /// Starts one: it serves from now on.
    ///
    /// # Errors
    /// There is no policy to obey, or an address can't be had. Nothing is served then.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let first = First::find(config.source)?;
        let settings = first.policy.settings()?;
        let mut registry = metrics::registry("sidecar", env!("CARGO_PKG_VERSION"));
        let metrics = Metrics::register(&mut registry);

        let mut listeners = Vec::new();
        for &address in &config.listen {
            listeners.push(bind(address).await?);
        }
        let admin_listener = bind(config.admin).await?;
        let address = |listener: &TcpListener, wanted| listener.local_addr().unwrap_or(wanted);
        let listen: Vec<_> = listeners
            .iter()
            .zip(&config.listen)
            .map(|(listener, &wanted)| address(listener, wanted))
            .collect();
        let admin_address = address(&admin_listener, config.admin);

        let (admission, admission_task) = Admission::spawn(settings, first.policy.mode.into());
        let seat = PolicySeat::new(
            first.policy,
            first.version,
            first.source,
            admission.clone(),
            metrics.clone(),
        );
        let path = Arc::new(RequestPath {
            policy: seat.clone(),
            observers: Observers {
                admission: admission.clone(),
                metrics: metrics.clone(),
                decisions: Arc::default(),
            },
            upstream: Upstream::new(config.upstream.clone()),
            bodies: BodyLimits::new(config.max_body_bytes, metrics.body_bytes.clone()),
            learned: Arc::default(),
            draining: CancellationToken::new(),
            exchanges: TaskTracker::new(),
        });

        let health = Health::new(&[POLICY, LISTENERS]);
        let shown = admin::Shown {
            policy: seat.clone(),
            admission: admission.clone(),
            engine: metrics.engine.clone(),
            learned: path.learned.clone(),
            decisions: path.observers.decisions.clone(),
        };
        let routes = admin_server::router(health.clone(), Arc::new(registry))
            .merge(admin_server::loopback_only(admin::routes(shown)));
        let admin_server = tokio::spawn(admin_server::serve(
            admin_listener,
            routes,
            std::future::pending(),
        ));

        let mut beside = JoinSet::new();
        let engine = metrics.engine.clone();
        beside.spawn(engine_watch::watch(
            config.upstream,
            admission.clone(),
            engine,
        ));
        beside.spawn(publish(admission.clone(), metrics.clone()));
        match first.follow {
            Follow::Folder(folder) => {
                health.set(POLICY, true);
                beside.spawn(folder.follow(seat, metrics));
            }
            Follow::Channel(config, kept) => {
                if first.source == Source::Bootstrap {
                    beside.spawn(be_patient(seat.clone(), health.clone()));
                } else {
                    health.set(POLICY, true);
                }
                let channel = Channel {
                    config,
                    kept,
                    seat,
                    admission,
                    metrics,
                };
                beside.spawn(channel.follow());
            }
        }

        let connections = Connections::default();
        for listener in listeners {
            beside.spawn(accept(listener, path.clone(), connections.clone()));
        }
        health.set(LISTENERS, true);
        tracing::info!(?listen, admin = %admin_address, "serving");
        Ok(Self {
            listen,
            admin: admin_address,
            drain: config.drain,
            health,
            path,
            connections,
            admission: AbortOnDropHandle::new(admission_task),
            admin_server: AbortOnDropHandle::new(admin_server),
            _beside: beside,
        })
    }

    /// Where traffic is taken, in the order of the configuration.
    pub fn listen(&self) -> &[SocketAddr] {
        &self.listen
    }

    /// Where the admin pages are.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Serves until told to go, then drains.
    ///
    /// # Errors
    /// A part without which nothing can be served has ended.
    pub async fn run(mut self, told_to_go: impl Future<Output = ()>) -> Result<(), RunError> {
        tokio::select! {
            () = told_to_go => {}
            _ = &mut self.admission => return Err(RunError::Admission),
            ended = &mut self.admin_server => return Err(RunError::Admin(format!("{ended:?}"))),
        }
        self.leave().await;
        Ok(())
    }

    async fn leave(self) {
        let deadline = Instant::now() + self.drain;
        tracing::info!(seconds = self.drain.as_secs(), "draining");
        self.health.drain();
        self.path.draining.cancel();
        self.path.observers.admission.drain();
        self.path.exchanges.close();
        let drained = tokio::time::timeout_at(deadline, self.path.exchanges.wait()).await;
        if drained.is_err() {
            let left = self.path.exchanges.len();
            tracing::warn!(left, "requests are cut off at the end of the drain time");
        }
        self.connections.closing.cancel();
        self.connections.open.close();
        let until = deadline.max(Instant::now() + CLOSE_GRACE);
        if tokio::time::timeout_at(until, self.connections.open.wait())
            .await
            .is_err()
        {
            tracing::debug!("connections are cut off");
        }
        tracing::info!("gone");
    }
}

/// A pod that knows no policy waits a moment for one before it says that it is ready, so that it
/// doesn't begin without its rules. But it does begin: without an operator it serves as well.
async fn be_patient(seat: PolicySeat, health: Health) {
    let _ = tokio::time::timeout(BOOTSTRAP_PATIENCE, seat.told()).await;
    health.set(POLICY, true);
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|source| StartError::Listen { address, source })
}

/// Puts the scheduler's state where the metric page finds it.
async fn publish(admission: Admission, metrics: Metrics) {
    let mut ticks = tokio::time::interval(PUBLISH_EVERY);
    loop {
        ticks.tick().await;
        metrics.snapshot.store(Arc::new(admission.snapshot().await));
    }
}
