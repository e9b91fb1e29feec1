//! Puts the parts together, starts them, and ends them in order.

mod options;

pub use options::{Files, Options, Source, StartError};

use crate::{
    admin::{self, Pods},
    causes::causes,
    channel::{
        Channel,
        auth::{TokenFile, TokenReviews, Tokens},
        ca::{CaError, ChannelCa},
        tls::ChannelTls,
        trust::Trust,
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
    webhook::{Namespaces, Webhook, bundle::Bundle},
    world::World,
};
use fairtide_telemetry::{Health, admin as admin_server};
use parking_lot::Mutex;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The channel is offered: it has a certificate.
const CHANNEL: &str = "channel";

/// The webhook is offered: it has a certificate.
const WEBHOOK: &str = "webhook";

/// Port of the channel in the operator's Service.
const CHANNEL_PORT: u16 = 8443;

/// Changes that may wait to be taken in.
const CHANGES: usize = 1_024;

/// One try to get the CA.
const CA_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two tries to get the CA.
const CA_RETRY: Duration = Duration::from_secs(2);

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
    /// Kept to the end: a replica that ends says so to those who wait.
    _held: Option<watch::Sender<Claim>>,
}

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
                let ca = ChannelCa::in_dir(&files.ca_dir)?;
                let trust = Trust::new(ca.cert_pem().to_owned());
                let tls = ChannelTls::new(ca, names(&options))?;
                let (held, claim) = watch::channel(Claim::Held);
                shared.tasks.spawn(folder.follow(shared.stop.clone()));
                shared.scribe(Writer::Log, &claim);
                shared.serve(channel_listener, tls, trust, Arc::new(tokens), &claim);
                (claim, Some(held))
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
                let listeners = (channel_listener, webhook_listener);
                shared.serve_in_cluster(listeners, client, options, &claim)?;
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

    fn serve(
        &self,
        listener: TcpListener,
        tls: ChannelTls,
        trust: Trust,
        tokens: Arc<dyn Tokens>,
        claim: &watch::Receiver<Claim>,
    ) {
        let (said, trust) = watch::channel(Arc::new(trust));
        let channel = Arc::new(Channel {
            fleet: self.fleet.clone(),
            tokens,
            claim: claim.clone(),
            trust,
            metrics: self.metrics.clone(),
            stop: self.stop.clone(),
        });
        let config = tls.config();
        self.tasks.spawn(async move {
            channel.serve(listener, config).await;
            drop(said);
        });
        self.tasks.spawn(tls.keep_fresh(self.stop.clone()));
        self.health.set(CHANNEL, true);
    }

    /// The CA is the API server's to give: until it does, nobody is served.
    fn serve_in_cluster(
        &self,
        (listener, webhook): (TcpListener, Option<TcpListener>),
        client: kube::Client,
        options: Options,
        claim: &watch::Receiver<Claim>,
    ) -> Result<(), StartError> {
        // What is wrong with a name is said now and not when the API server answers.
        ChannelTls::check(&names(&options))?;
        let shared = self.clone();
        let claim = claim.clone();
        self.tasks.spawn(async move {
            loop {
                let stopped = shared.stop.clone();
                let ca = ChannelCa::in_secret(client.clone(), &options.namespace);
                let ca = tokio::select! {
                    () = stopped.cancelled() => return,
                    ca = tokio::time::timeout(CA_TIMEOUT, ca) => ca.unwrap_or(Err(CaError::Slow)),
                };
                let ready = ca.map_err(StartError::from).and_then(|ca| {
                    if let Some(dir) = &options.ca_copy {
                        ca.write_cert(dir)?;
                    }
                    let ca = Arc::new(ca);
                    Ok((ChannelTls::new(ca.clone(), names(&options))?, ca))
                });
                match ready {
                    Ok((tls, ca)) => {
                        let trust = Trust::new(ca.cert_pem().to_owned());
                        if let Some(listener) = webhook {
                            shared.webhook(listener, ca, client.clone(), &options, &claim);
                        }
                        let tokens = Arc::new(TokenReviews::new(client));
                        return shared.serve(listener, tls, trust, tokens, &claim);
                    }
                    Err(error) => tracing::error!(
                        error = causes(&error),
                        "the channel waits for its certificate"
                    ),
                }
                tokio::select! {
                    () = stopped.cancelled() => return,
                    () = tokio::time::sleep(CA_RETRY) => {}
                }
            }
        });
        Ok(())
    }

    /// Offers the webhook with a certificate of the channel's CA, which the sidecars that it puts
    /// in trust too.
    fn webhook(
        &self,
        listener: TcpListener,
        ca: Arc<ChannelCa>,
        client: kube::Client,
        options: &Options,
        claim: &watch::Receiver<Claim>,
    ) {
        let Some(asked) = &options.webhook else {
            return;
        };
        let tls = ChannelTls::with_protocols(ca.clone(), names(options), &["h2", "http/1.1"]);
        let tls = match tls {
            Ok(tls) => tls,
            Err(error) => {
                tracing::error!(error = causes(&error), "the webhook has no certificate");
                return;
            }
        };
        let namespaces = Namespaces::default();
        let webhook = Arc::new(Webhook {
            world: self.world.clone(),
            namespaces: namespaces.clone(),
            sidecar_image: asked.sidecar_image.clone(),
            channel_url: asked.channel_url.clone().unwrap_or_else(|| {
                let namespace = &options.namespace;
                format!("https://fairtide-operator.{namespace}.svc:{CHANNEL_PORT}")
            }),
            channel_ca_pem: ca.cert_pem().to_owned(),
            kubernetes: Default::default(),
            metrics: self.metrics.clone(),
            stop: self.stop.clone(),
        });
        let bundle = Bundle {
            client: client.clone(),
            ca_pem: ca.cert_pem().to_owned(),
            claim: claim.clone(),
            stop: self.stop.clone(),
        };
        self.tasks
            .spawn(namespaces.follow(client.clone(), self.stop.clone()));
        self.tasks.spawn(webhook.clone().follow_version(client));
        self.tasks.spawn(bundle.keep());
        self.tasks.spawn(webhook.serve(listener, tls.config()));
        self.tasks.spawn(tls.keep_fresh(self.stop.clone()));
        self.health.set(WEBHOOK, true);
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
    TcpListener::bind(address)
        .await
        .map_err(|source| StartError::Listen {
            flag,
            address,
            source,
        })
}

fn local(listener: &TcpListener, asked: SocketAddr) -> SocketAddr {
    listener.local_addr().unwrap_or(asked)
}

/// All names of the channel: those of its Service, of this machine, and those asked for.
fn names(options: &Options) -> Vec<String> {
    let service = format!("fairtide-operator.{}.svc", options.namespace);
    let mut names = vec![
        format!("{service}.cluster.local"),
        service,
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
    ];
    for name in &options.names {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The address of a listener that listens on one.
fn single(address: SocketAddr) -> Option<String> {
    (!address.ip().is_unspecified()).then(|| format!("https://{address}"))
}
