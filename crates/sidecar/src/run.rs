//! Puts the parts together, and takes them down again.
//!
//! Start: the policy first, then all listeners; a listener that can't be had ends the process,
//! since traffic on the others would go around it. End: see [`crate::drain`].

use crate::{
    accept::{Connections, accept},
    admin,
    admission::Admission,
    body::BodyLimits,
    checks::Check,
    dial::EngineAddress,
    drain::Drainer,
    engine_restart::EngineRestart,
    engine_watch,
    exchange::Observers,
    forward::Upstream,
    in_force::{PolicySeat, Source},
    lifecycle::{DrainPlan, Lifecycle, Phase},
    listen::Listeners,
    mark::Marker,
    metrics::{Live, Metrics},
    mode,
    path::RequestPath,
    pod_state::PodState,
    readiness::{self, EngineState, Pulse},
    self_check,
    source::{First, Follow, PolicySource, channel::Channel, manifests::ManifestsError},
    stale_socket,
};
use fairtide_policy::{Engine, PolicyError, bootstrap::Checks};
use fairtide_telemetry::{Health, admin as admin_server, metrics};
use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, sync::watch, task::JoinSet, time::Instant};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// How often the scheduler's state is published as metrics.
const PUBLISH_EVERY: Duration = Duration::from_millis(500);

/// How long a sidecar that knows no policy waits for one before it is ready nevertheless.
const BOOTSTRAP_PATIENCE: Duration = Duration::from_secs(3);

/// The hook is never held longer than the pod lives.
const HOOK_AIR: Duration = Duration::from_secs(1);

const POLICY: &str = "policy";
const LISTENERS: &str = "listeners";
const ENGINE: &str = "engine";

/// What to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// What is served, in front of whom.
    pub ports: Vec<Port>,
    /// Where probes, metrics and debug pages are.
    pub admin: SocketAddr,
    /// Where policies come from.
    pub source: PolicySource,
    /// The largest request body, in bytes.
    pub max_body_bytes: u64,
    /// How requests are brought to an end once the pod is going away.
    pub drain: DrainPlan,
    /// What the engine is, if that is known.
    pub engine: Option<Engine>,
    /// How the engine's health is found.
    pub checks: Checks,
    /// Whether loopback belongs to the whole node, so that debug pages are shown to nobody.
    pub host_network: bool,
    /// Where the pod's end is marked.
    pub state_folder: Option<PathBuf>,
    /// The mode of this one pod.
    pub mode_file: Option<PathBuf>,
    /// The pod's addresses, if they are known.
    pub pod_ips: Vec<IpAddr>,
    /// How many workers of this container ended before this one, by no wish of anybody.
    pub restarts: u64,
}

/// A port to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Where traffic is taken.
    pub listen: SocketAddr,
    /// Where its engine is.
    pub upstream: EngineAddress,
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
    /// A check of the bootstrap is none.
    #[error("FAIRTIDE_BOOTSTRAP: checks: {0}")]
    Check(String),
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
    lifecycle: Arc<Lifecycle>,
    marker: Option<Marker>,
    connections: Connections,
    admission: AbortOnDropHandle<()>,
    admin_server: AbortOnDropHandle<io::Result<()>>,
    /// What runs beside, aborted on drop.
    _beside: JoinSet<()>,
}

/// How the engine is asked.
struct Asked {
    readiness: Vec<Check>,
    startup: Check,
    liveness: Check,
}

// === impl Sidecar ===

impl Sidecar {
    /// Starts one: it serves from now on.
    ///
    /// # Errors
    /// There is no policy to obey, or an address can't be had. Nothing is served then.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let listeners = Listeners::open(&config)?;
        Self::start_on(listeners, config).await
    }

    /// Starts one on listeners that are open already.
    ///
    /// # Errors
    /// There is no policy to obey. Nothing is served then.
    pub async fn start_on(listeners: Listeners, config: Config) -> Result<Self, StartError> {
        let first = First::find(config.source)?;
        let settings = first.policy.settings()?;
        let asked = Asked::of(&config.checks, &config.ports, config.engine)?;
        let pod_mode = match &config.mode_file {
            Some(file) => mode::read(file).await.unwrap_or_default(),
            None => mode::PodMode::default(),
        };
        let mut registry = metrics::registry("sidecar", env!("CARGO_PKG_VERSION"));
        let metrics = Metrics::register(&mut registry);
        metrics.worker_restarts.inc_by(config.restarts);

        let mut opened = Vec::new();
        let mut ports = config.ports;
        for (port, listener) in ports.iter_mut().zip(listeners.ports) {
            let (listener, address) = to_serve(listener, port.listen)?;
            port.listen = address;
            opened.push(listener);
        }
        let (admin_listener, admin) = to_serve(listeners.admin, config.admin)?;

        let binding = pod_mode.over(first.policy.mode).mode.into();
        let (admission, admission_task) = Admission::spawn(settings, binding, ports.len());
        let seat = PolicySeat::new(
            first.policy,
            first.version,
            first.source,
            pod_mode,
            admission.clone(),
            metrics.clone(),
        );
        let lifecycle = Arc::new(Lifecycle::new());
        let pulse = Pulse::new();
        let (engine, engine_state) = watch::channel(EngineState::Unknown);
        let health = Health::new(&[POLICY, LISTENERS, ENGINE]);
        let state = PodState {
            lifecycle: lifecycle.clone(),
            health: health.clone(),
            engine: engine_state.clone(),
            restart: EngineRestart::new(admission.clone(), lifecycle.clone(), engine_state.clone()),
            found: Arc::default(),
        };
        registry.register_collector(Box::new(Live {
            metrics: metrics.clone(),
            policy: seat.clone(),
            state: state.clone(),
        }));

        let exchanges = TaskTracker::new();
        let learned = Arc::default();
        let decisions = Arc::default();
        let bodies = BodyLimits::new(config.max_body_bytes, metrics.body_bytes.clone());
        let shown = admin::Shown {
            policy: seat.clone(),
            admission: admission.clone(),
            engine: metrics.engine.clone(),
            learned: Arc::clone(&learned),
            decisions: Arc::clone(&decisions),
            state: state.clone(),
        };
        let hook = admin::Hook {
            lifecycle: lifecycle.clone(),
            restart: state.restart.clone(),
            bound: config.drain.time() + HOOK_AIR,
        };
        let startup = admin::Question::new(asked.startup, pulse.clone());
        let liveness = admin::Question::new(asked.liveness, pulse.clone());
        let debug = admin::routes(shown.clone());
        let debug = match config.host_network {
            true => admin::shown_to_nobody(),
            false => admin_server::loopback_only(debug),
        };
        let routes = admin_server::router(health.clone(), Arc::new(registry))
            .merge(admin::pod_routes(hook, startup, liveness))
            .merge(admin::engine_ready(shown))
            .merge(debug);
        let serving = admin_server::serve(admin_listener, routes, std::future::pending());
        let admin_server = tokio::spawn(serving);

        let mut beside = JoinSet::new();
        let connections = Connections::default();
        for (at, port) in ports.iter().enumerate() {
            let admission = admission.of_port(at);
            let upstream = port.upstream.clone();
            beside.spawn(engine_watch::watch(
                at,
                upstream,
                admission,
                metrics.engine.clone(),
            ));
            if let EngineAddress::Unix(path) = &port.upstream {
                beside.spawn(stale_socket::watch(path.clone()));
            }
        }
        beside.spawn(readiness::watch(asked.readiness, pulse.clone(), engine));
        beside.spawn(tell(engine_state.clone(), health.clone()));
        beside.spawn(self_check::watch(
            ports.clone(),
            config.pod_ips,
            connections.callers.clone(),
            engine_state,
            state.found.clone(),
        ));
        beside.spawn(publish(admission.clone(), metrics.clone()));
        if let Some(file) = config.mode_file {
            beside.spawn(mode::follow(file, seat.clone()));
        }
        let marker = config.state_folder.map(Marker::new);
        if let Some(marker) = marker.clone() {
            if let Some(age) = marker.age(config.drain.grace) {
                tracing::info!("the pod was terminating before this process started");
                let now = Instant::now();
                lifecycle.begin(now.checked_sub(age).unwrap_or(now));
            }
            beside.spawn(marker.hear(lifecycle.clone()));
        }
        let drainer = Drainer {
            lifecycle: lifecycle.clone(),
            plan: config.drain,
            admission: admission.clone(),
            exchanges: exchanges.clone(),
            health: health.clone(),
            engines: ports.iter().map(|port| port.upstream.clone()).collect(),
            marker: marker.clone(),
        };
        beside.spawn(drainer.follow());

        for (at, (listener, port)) in opened.into_iter().zip(&ports).enumerate() {
            let path = Arc::new(RequestPath {
                policy: seat.clone(),
                observers: Observers {
                    admission: admission.of_port(at),
                    metrics: metrics.clone(),
                    decisions: Arc::clone(&decisions),
                    pulse: pulse.clone(),
                },
                upstream: Upstream::new(port.upstream.clone()),
                bodies: bodies.clone(),
                learned: Arc::clone(&learned),
                lifecycle: lifecycle.clone(),
                exchanges: exchanges.clone(),
            });
            beside.spawn(accept(listener, path, connections.clone()));
        }
        health.set(LISTENERS, true);
        health.started();
        match first.follow {
            Follow::Folder(folder) => {
                health.set(POLICY, true);
                beside.spawn(folder.follow(seat, metrics));
            }
            Follow::Channel(config, kept) => {
                if first.source == Source::Bootstrap && config.first.is_none() {
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
                    state,
                };
                beside.spawn(channel.follow());
            }
        }
        let listen: Vec<_> = ports.iter().map(|port| port.listen).collect();
        tracing::info!(?listen, %admin, "serving");
        Ok(Self {
            listen,
            admin,
            lifecycle,
            marker,
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

    /// Serves until told to go, then drains, unless that has happened already.
    ///
    /// # Errors
    /// A part without which nothing can be served has ended.
    pub async fn run(mut self, told_to_go: impl Future<Output = ()>) -> Result<(), RunError> {
        tokio::select! {
            () = told_to_go => {}
            _ = &mut self.admission => return Err(RunError::Admission),
            ended = &mut self.admin_server => return Err(RunError::Admin(format!("{ended:?}"))),
        }
        // The container may be started again in a pod that lives on. In one that doesn't, the
        // kubelet won't.
        if let Some(marker) = &self.marker {
            marker.remove();
        }
        self.lifecycle.go();
        self.lifecycle.reached(Phase::Drained).await;
        Drainer::close(&self.connections).await;
        tracing::info!("gone");
        Ok(())
    }
}

// === impl Asked ===

impl Asked {
    fn of(checks: &Checks, ports: &[Port], engine: Option<Engine>) -> Result<Self, StartError> {
        let defaults = ports.iter().map(|port| port.upstream.clone());
        let defaults = defaults.map(|upstream| Check::default_of(upstream, engine));
        let defaults: Vec<_> = defaults.collect();
        let written = |check: &Option<fairtide_policy::bootstrap::Check>| {
            let check = check.as_ref().map(Check::new);
            check.transpose().map_err(StartError::Check)
        };
        let readiness = written(&checks.readiness)?.map(|check| vec![check]);
        let first = || defaults.first().cloned();
        let none = || StartError::Check("there is no port".to_owned());
        Ok(Self {
            startup: written(&checks.startup)?.or_else(first).ok_or_else(none)?,
            liveness: written(&checks.liveness)?.or_else(first).ok_or_else(none)?,
            readiness: readiness.unwrap_or(defaults),
        })
    }
}

/// A pod that knows no policy waits a moment for one before it says that it is ready, so that it
/// doesn't begin without its rules. But it does begin: without an operator it serves as well.
async fn be_patient(seat: PolicySeat, health: Health) {
    let _ = tokio::time::timeout(BOOTSTRAP_PATIENCE, seat.told()).await;
    health.set(POLICY, true);
}

/// Lets the probes know how the engine is.
async fn tell(mut engine: watch::Receiver<EngineState>, health: Health) {
    loop {
        let ready = engine.borrow_and_update().is_ready();
        health.set(ENGINE, ready);
        if engine.changed().await.is_err() {
            return;
        }
    }
}

fn to_serve(
    listener: std::net::TcpListener,
    asked: SocketAddr,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let serving = TcpListener::from_std(listener).map_err(|source| StartError::Listen {
        address: asked,
        source,
    })?;
    let address = serving.local_addr().unwrap_or(asked);
    Ok((serving, address))
}

/// Puts the scheduler's state where the metric page finds it.
async fn publish(admission: Admission, metrics: Metrics) {
    let mut ticks = tokio::time::interval(PUBLISH_EVERY);
    loop {
        ticks.tick().await;
        metrics.snapshot.store(Arc::new(admission.snapshot().await));
    }
}
