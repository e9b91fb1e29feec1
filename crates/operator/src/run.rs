//! Puts the parts together, starts them, and ends them in order.

mod options;
mod serving;

pub use options::{Files, Options, Source, StartError};

use crate::{
    admin::{self, Pods},
    channel::{
        auth::TokenFile,
        ca::{Authorities, dir},
        tls::Making,
    },
    fleet::Fleet,
    intake::Intake,
    lease::{Claim, keeper::Keeper},
    metrics::Metrics,
    source::{
        cluster::{LISTED, Watches},
        files::Folder,
    },
    status::{scribe::Scribe, writer::Writer},
    webhook::cert_dir::Pair,
    world::World,
};
use fairtide_telemetry::{Health, admin as admin_server};
use parking_lot::Mutex;
use serving::{CHANNEL, Hook, WEBHOOK};
use std::{
    io::ErrorKind,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Changes that may wait to be taken in.
const CHANGES: usize = 1_024;

/// Everything that ends with the operator ends within this.
const END: Duration = Duration::from_secs(8);

/// A running operator.
pub struct Operator {
    channel: SocketAddr,
    admin: SocketAddr,
    webhook: Option<SocketAddr>,
    fleet: Arc<Fleet>,
    claim: watch::Receiver<Claim>,
    stop: CancellationToken,
    tasks: TaskTracker,
    _held: Option<Held>,
}

/// What never changes without a cluster. Kept to the end: who waits for a change goes on waiting.
struct Held(
    #[expect(dead_code)] watch::Sender<Claim>,
    #[expect(dead_code)] watch::Sender<Arc<Authorities>>,
);

/// What the parts share.
#[derive(Clone)]
struct Shared {
    world: Arc<Mutex<World>>,
    fleet: Arc<Fleet>,
    wake: Arc<Notify>,
    metrics: Arc<Metrics>,
    health: Health,
    stop: CancellationToken,
    tasks: TaskTracker,
}

// === impl Operator ===

impl Operator {
    /// Starts all parts. What can be wrong with flags and files is an error now; an API server
    /// that can't be reached is waited for.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(source: Source, options: Options) -> Result<Self, StartError> {
        let channel_listener = listen("--channel", options.channel).await?;
        let admin_listener = listen("--admin", options.admin).await?;
        let webhook_listener = match &options.webhook {
            Some(webhook) => Some(listen("--webhook", webhook.listen).await?),
            None => None,
        };
        let webhook = webhook_listener
            .as_ref()
            .and_then(|listener| listener.local_addr().ok());
        let hook = hook(webhook_listener, &options)?;
        let channel = local(&channel_listener, options.channel);
        let admin = local(&admin_listener, options.admin);
        let version = env!("CARGO_PKG_VERSION");
        let mut registry = fairtide_telemetry::metrics::registry("operator", version);
        let metrics = Arc::new(Metrics::register(&mut registry));
        let mut conditions = vec![CHANNEL];
        if let Source::Cluster(_) = source {
            conditions.extend(LISTED);
            conditions.extend(webhook.map(|_| WEBHOOK));
        }
        let wake = Arc::new(Notify::new());
        let shared = Shared {
            world: Arc::default(),
            fleet: Fleet::new(wake.clone(), metrics.clone()),
            wake,
            metrics,
            health: Health::new(&conditions),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let (changes, taken_in) = mpsc::channel(CHANGES);
        let (claim, held) = match source {
            Source::Files(files) => {
                let tokens = TokenFile::open(files.token_file.clone()).map_err(|source| {
                    StartError::Token {
                        path: files.token_file,
                        source,
                    }
                })?;
                let folder = Folder::open(files.dir, changes)?;
                let found = dir::open(&files.ca_dir, options.clock.now())?;
                let (authorities, published) = watch::channel(Arc::new(found));
                let making = Making {
                    authorities: published,
                    names: options.all_names(),
                    life: options.timings.leaf,
                    clock: options.clock,
                };
                let (held, claim) = watch::channel(Claim::Held);
                shared.tasks.spawn(folder.follow(shared.stop.clone()));
                shared.scribe(Writer::Log, &claim);
                let every = options.timings.every;
                shared.channel(channel_listener, making, Arc::new(tokens), &claim, every)?;
                (claim, Some(Held(held, authorities)))
            }
            Source::Cluster(client) => {
                let advertise = options.advertise.clone().or_else(|| single(channel));
                let (keeper, claim) = Keeper::new(
                    client.clone(),
                    &options.namespace,
                    &options.host,
                    advertise,
                    options.lease,
                );
                shared.tasks.spawn(keeper.run(shared.stop.clone()));
                let watches = Watches {
                    client: client.clone(),
                    changes,
                    health: shared.health.clone(),
                    metrics: shared.metrics.clone(),
                    stop: shared.stop.clone(),
                };
                shared.tasks.spawn(watches.run());
                shared.scribe(Writer::cluster(client.clone(), &options.host), &claim);
                shared.serve_in_cluster(channel_listener, hook, client, options, &claim)?;
                (claim, None)
            }
        };
        shared.intake(taken_in);
        shared.lease_metric(&claim);
        shared.admin(admin_listener, registry);
        tracing::info!(%channel, %admin, version, "operator started");
        Ok(Self {
            channel,
            admin,
            webhook,
            fleet: shared.fleet,
            claim,
            stop: shared.stop,
            tasks: shared.tasks,
            _held: held,
        })
    }

    /// Where sidecars connect.
    pub fn channel(&self) -> SocketAddr {
        self.channel
    }

    /// Where probes and metrics are.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Where the API server asks, if the webhook is offered.
    pub fn webhook(&self) -> Option<SocketAddr> {
        self.webhook
    }

    /// The pods.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// Whether this replica holds the lease.
    pub fn claim(&self) -> watch::Receiver<Claim> {
        self.claim.clone()
    }

    /// Vacates the lease, lets the channels end, and stops.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(END, self.tasks.wait()).await.is_err() {
            tracing::warn!("not everything ended in time");
        }
        tracing::info!("operator ended");
    }
}

// === impl Shared ===

impl Shared {
    fn intake(&self, changes: mpsc::Receiver<Vec<crate::world::Change>>) {
        let intake = Intake {
            world: self.world.clone(),
            fleet: self.fleet.clone(),
            changes,
            wake: self.wake.clone(),
            metrics: self.metrics.clone(),
        };
        self.tasks.spawn(intake.run(self.stop.clone()));
    }

    fn scribe(&self, writer: Writer, claim: &watch::Receiver<Claim>) {
        let scribe = Scribe {
            world: self.world.clone(),
            fleet: self.fleet.clone(),
            writer,
            claim: claim.clone(),
            wake: self.wake.clone(),
            metrics: self.metrics.clone(),
            stop: self.stop.clone(),
        };
        self.tasks.spawn(scribe.run());
    }

    fn lease_metric(&self, claim: &watch::Receiver<Claim>) {
        let (mut claim, metrics) = (claim.clone(), self.metrics.clone());
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            loop {
                let held = claim.borrow_and_update().is_held();
                metrics.lease_held.set(i64::from(held));
                tokio::select! {
                    () = stop.cancelled() => return,
                    changed = claim.changed() => if changed.is_err() { return },
                }
            }
        });
    }

    fn admin(&self, listener: TcpListener, registry: fairtide_telemetry::metrics::Registry) {
        let pods = admin::routes(Pods {
            world: self.world.clone(),
            fleet: self.fleet.clone(),
        });
        let routes = admin_server::router(self.health.clone(), Arc::new(registry))
            .merge(admin_server::loopback_only(pods));
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let shutdown = stop.clone();
            let serve = admin_server::serve(listener, routes, shutdown.cancelled_owned());
            if let Err(error) = serve.await {
                tracing::error!(%error, "admin server ended");
            }
        });
    }
}

async fn listen(flag: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    let opened = match TcpListener::bind(address).await {
        // `[::]` means every address, also where there is no IPv6.
        Err(error)
            if address.ip() == Ipv6Addr::UNSPECIFIED && error.kind() != ErrorKind::AddrInUse =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        opened => opened,
    };
    opened.map_err(|source| StartError::Listen {
        flag,
        address,
        source,
    })
}

fn local(listener: &TcpListener, asked: SocketAddr) -> SocketAddr {
    listener.local_addr().unwrap_or(asked)
}

/// The webhook that is asked for. A directory of certificates must hold one now.
fn hook(listener: Option<TcpListener>, options: &Options) -> Result<Option<Hook>, StartError> {
    let Some((listener, options)) = listener.zip(options.webhook.clone()) else {
        return Ok(None);
    };
    let files = options.cert_dir.as_ref().map(|dir| {
        let pair = Pair::read(dir).map_err(StartError::CertDir)?;
        Ok::<_, StartError>((dir.clone(), pair))
    });
    Ok(Some(Hook {
        listener,
        files: files.transpose()?,
        options,
    }))
}

/// The address of a listener that listens on one.
fn single(address: SocketAddr) -> Option<String> {
    (!address.ip().is_unspecified()).then(|| format!("https://{address}"))
}
