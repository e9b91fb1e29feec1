//! The servers that need certificates: the channel, and in a cluster the webhook.

use super::{
    Shared,
    options::{Options, StartError},
};
use crate::{
    causes::causes,
    channel::{
        Channel,
        auth::{TokenReviews, Tokens},
        ca::{Authorities, CaError, dir, keeper::Keeper, secret::CaSecret},
        tls::{Making, Presented, Purpose, ServerTls, TlsError},
    },
    lease::Claim,
    webhook::{
        self, Namespaces, Webhook,
        bundle::{Bundle, Entries},
        cert_dir::{CertDir, Pair},
    },
};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::watch};

/// The channel is offered: it has a certificate.
pub(super) const CHANNEL: &str = "channel";

/// The webhook is offered: it has a certificate.
pub(super) const WEBHOOK: &str = "webhook";

/// Port of the channel in the operator's Service.
const CHANNEL_PORT: u16 = 8443;

/// One try to get the authorities.
const CA_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two tries to get the authorities.
const CA_RETRY: Duration = Duration::from_secs(2);

/// What a webhook is made of.
pub(super) struct Hook {
    pub listener: TcpListener,
    pub options: webhook::Options,
    /// What its directory of certificates holds, if it has one.
    pub files: Option<(PathBuf, Pair)>,
}

// === impl Shared ===

impl Shared {
    /// Offers the channel.
    pub(super) fn channel(
        &self,
        listener: TcpListener,
        making: Making,
        tokens: Arc<dyn Tokens>,
        claim: &watch::Receiver<Claim>,
        every: Duration,
    ) -> Result<(), TlsError> {
        let channel = Arc::new(Channel {
            fleet: self.fleet.clone(),
            tokens,
            claim: claim.clone(),
            authorities: making.authorities.clone(),
            metrics: self.metrics.clone(),
            stop: self.stop.clone(),
        });
        let tls = ServerTls::new(Purpose::Channel, making)?;
        self.tasks.spawn(channel.serve(listener, tls.config()?));
        self.keep_fresh(tls, every);
        self.health.set(CHANNEL, true);
        Ok(())
    }

    fn keep_fresh(&self, tls: ServerTls, every: Duration) {
        let (metrics, stop) = (self.metrics.clone(), self.stop.clone());
        self.tasks.spawn(tls.keep_fresh(every, metrics, stop));
    }

    /// Offers both. The authorities are the API server's to give: until it does, nobody is served.
    pub(super) fn serve_in_cluster(
        &self,
        listener: TcpListener,
        hook: Option<Hook>,
        client: kube::Client,
        options: Options,
        claim: &watch::Receiver<Claim>,
    ) -> Result<(), StartError> {
        // What is wrong with a name is said now and not when the API server answers.
        Making::check(&options.all_names())?;
        let shared = self.clone();
        let claim = claim.clone();
        self.tasks.spawn(async move {
            let Some(found) = shared.authorities(&client, &options).await else {
                return;
            };
            let started = shared.start_in_cluster(listener, hook, client, options, claim, found);
            if let Err(error) = started {
                tracing::error!(error = causes(&error), "nothing is served");
            }
        });
        Ok(())
    }

    /// Asks until there are some; `None`: the operator ends.
    async fn authorities(
        &self,
        client: &kube::Client,
        options: &Options,
    ) -> Option<Arc<Authorities>> {
        let secret = CaSecret::new(client.clone(), &options.namespace);
        loop {
            let (now, life) = (options.clock.now(), options.timings.authority);
            let stored = tokio::select! {
                () = self.stop.cancelled() => return None,
                stored = tokio::time::timeout(CA_TIMEOUT, secret.read_or_make(now, life)) => {
                    stored.unwrap_or(Err(CaError::Slow))
                }
            };
            let found = stored.and_then(|stored| {
                if let Some(dir) = &options.ca_copy {
                    dir::write_copy(dir, &stored.authorities.trust().pem)?;
                }
                Ok(stored.authorities)
            });
            match found {
                Ok(authorities) => return Some(authorities),
                Err(error) => tracing::error!(
                    error = causes(&error),
                    "the channel waits for its certificate"
                ),
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = tokio::time::sleep(CA_RETRY) => {}
            }
        }
    }

    fn start_in_cluster(
        &self,
        listener: TcpListener,
        hook: Option<Hook>,
        client: kube::Client,
        options: Options,
        claim: watch::Receiver<Claim>,
        found: Arc<Authorities>,
    ) -> Result<(), TlsError> {
        let (authorities, published) = watch::channel(found);
        let making = Making {
            authorities: published,
            names: options.all_names(),
            life: options.timings.leaf,
            clock: options.clock.clone(),
        };
        let own = hook.as_ref().is_some_and(|hook| hook.files.is_none());
        let entries = match hook {
            Some(hook) => Some(self.webhook(hook, &making, client.clone(), &options, &claim)?),
            None => None,
        };
        let keeper = Keeper {
            secret: CaSecret::new(client.clone(), &options.namespace),
            timings: options.timings,
            clock: options.clock,
            claim: claim.clone(),
            fleet: self.fleet.clone(),
            entries: entries.filter(|_| own),
            authorities,
            copy: options.ca_copy,
            metrics: self.metrics.clone(),
            stop: self.stop.clone(),
        };
        self.tasks.spawn(keeper.run());
        let tokens = Arc::new(TokenReviews::new(client));
        self.channel(listener, making, tokens, &claim, options.timings.every)
    }

    /// Offers the webhook; whom API servers trust when they ask it.
    fn webhook(
        &self,
        hook: Hook,
        making: &Making,
        client: kube::Client,
        options: &Options,
        claim: &watch::Receiver<Claim>,
    ) -> Result<watch::Receiver<Entries>, TlsError> {
        let Hook {
            listener,
            options: asked,
            files,
        } = hook;
        let namespaces = Namespaces::default();
        let webhook = Arc::new(Webhook {
            world: self.world.clone(),
            namespaces: namespaces.clone(),
            sidecar_image: asked.sidecar_image,
            channel_url: asked.channel_url.unwrap_or_else(|| {
                let namespace = &options.namespace;
                format!("https://fairtide-operator.{namespace}.svc:{CHANNEL_PORT}")
            }),
            authorities: making.authorities.clone(),
            kubernetes: Default::default(),
            metrics: self.metrics.clone(),
            stop: self.stop.clone(),
        });
        let (entries, seen) = watch::channel(Entries::Unknown);
        let timings = options.timings;
        let (config, trusted) = match files {
            None => {
                let tls = ServerTls::new(Purpose::Webhook, making.clone())?;
                let config = tls.config()?;
                self.keep_fresh(tls, timings.every);
                (config, self.own_trust(making.authorities.clone()))
            }
            Some((dir, first)) => {
                let certified = first.certified();
                let presented = Presented::new(certified.map_err(rustls::Error::General)?);
                let config = presented.clone().config(Purpose::Webhook)?;
                let trusted = watch::Sender::new(first.authority().map(Arc::from));
                let published = trusted.subscribe();
                let files = CertDir {
                    dir,
                    first,
                    presented,
                    trusted,
                    entries: seen.clone(),
                    every: timings.every,
                    spread: timings.spread,
                    clock: options.clock.clone(),
                    metrics: self.metrics.clone(),
                    stop: self.stop.clone(),
                };
                self.tasks.spawn(files.follow());
                (config, published)
            }
        };
        let bundle = Bundle {
            client: client.clone(),
            trusted,
            claim: claim.clone(),
            entries,
            stop: self.stop.clone(),
        };
        self.tasks
            .spawn(namespaces.follow(client.clone(), self.stop.clone()));
        self.tasks.spawn(webhook.clone().follow_version(client));
        self.tasks.spawn(bundle.keep());
        self.tasks.spawn(webhook.serve(listener, config));
        self.health.set(WEBHOOK, true);
        Ok(seen)
    }

    /// The PEM of our own authorities, for `caBundle`.
    fn own_trust(
        &self,
        mut authorities: watch::Receiver<Arc<Authorities>>,
    ) -> watch::Receiver<Option<Arc<str>>> {
        let pem = |authorities: &Authorities| Some(Arc::from(authorities.trust().pem.as_str()));
        let first = pem(&authorities.borrow_and_update());
        let (trusted, published) = watch::channel(first);
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    changed = authorities.changed() => if changed.is_err() { return },
                }
                let new = pem(&authorities.borrow_and_update());
                trusted.send_replace(new);
            }
        });
        published
    }
}
