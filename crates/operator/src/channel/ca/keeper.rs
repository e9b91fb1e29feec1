//! Looks at the Secret and the clock now and then, publishes what is there, and, while it holds the
//! lease, takes the next step of a rotation.

use super::{
    Authorities, Authority, CaError, dir,
    rotation::{Facts, Lives, Step, Timings, decide},
    secret::{CaSecret, Stored},
};
use crate::{
    causes::causes,
    clock::{Clock, unix_seconds},
    fleet::Fleet,
    lease::Claim,
    metrics::{Certificate, Metrics},
    webhook::bundle::Entries,
};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// One look, with what follows from it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// So many pods are named in the log.
const NAMED: usize = 10;

/// Keeps the authorities of a cluster.
pub struct Keeper {
    /// Where they are.
    pub secret: CaSecret,
    /// How long things last.
    pub timings: Timings,
    /// The time of day.
    pub clock: Clock,
    /// Whether this replica may write.
    pub claim: watch::Receiver<Claim>,
    /// The sidecars that shall trust them.
    pub fleet: Arc<Fleet>,
    /// Whom API servers trust; `None`: the webhook has no certificate of these authorities.
    pub entries: Option<watch::Receiver<Entries>>,
    /// Where they are published.
    pub authorities: watch::Sender<Arc<Authorities>>,
    /// Where a copy of all certificates is written for whoever starts sidecars.
    pub copy: Option<PathBuf>,
    /// Where their ends are shown.
    pub metrics: Arc<Metrics>,
    /// Fires when the operator ends.
    pub stop: CancellationToken,
}

/// The next authority that API servers have been told of, and since when this replica knows that.
struct Told {
    pem: String,
    since: Instant,
}

// === impl Keeper ===

impl Keeper {
    /// Keeps them until `stop`.
    pub async fn run(mut self) {
        let mut told = None;
        let mut quiet = false;
        self.show();
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(self.timings.every) => {}
                changed = self.claim.changed() => if changed.is_err() { return },
            }
            let look = timeout(TIMEOUT, self.look(&mut told)).await;
            match look.unwrap_or(Err(CaError::Slow)) {
                Ok(()) => quiet = false,
                // What went wrong once goes wrong at each look.
                Err(error) if !std::mem::replace(&mut quiet, true) => {
                    tracing::error!(error = causes(&error), "certificate authorities not kept");
                }
                Err(error) => tracing::debug!(error = causes(&error), "not kept"),
            }
        }
    }

    async fn look(&mut self, told: &mut Option<Told>) -> Result<(), CaError> {
        let present = self.authorities.borrow().clone();
        let stored = match self.secret.read().await? {
            Some(stored) => stored,
            // Nobody need lose trust because somebody cleaned up.
            None => {
                tracing::warn!("the Secret with the certificate authorities is gone: made again");
                self.secret.create(&present).await?
            }
        };
        self.publish(&stored);
        if !self.claim.borrow_and_update().is_held() {
            *told = None;
            self.metrics.pods_not_trusting.set(0);
            return Ok(());
        }
        let authorities = &stored.authorities;
        self.note(authorities, told);
        let waited_for = match &authorities.next {
            Some(_) => self.fleet.not_trusting(&authorities.trust().version),
            None => Vec::new(),
        };
        let waiting = i64::try_from(waited_for.len()).unwrap_or(i64::MAX);
        self.metrics.pods_not_trusting.set(waiting);
        let facts = Facts {
            now: self.clock.now(),
            asked: stored.asked,
            told_for: told.as_ref().map(|told| told.since.elapsed()),
            confirmed: waited_for.is_empty(),
        };
        let step = decide(&Lives::of(authorities), &facts, &self.timings);
        let (current, previous) = (authorities.current.clone(), authorities.previous.clone());
        let (new, answered) = match step {
            Step::Wait => return Ok(()),
            Step::Prepare => {
                let next = Authority::make(facts.now, self.timings.authority)?;
                let new = Authorities::new(current, Some(Arc::new(next)), previous);
                (new, false)
            }
            Step::Promote => {
                let Some(next) = authorities.next.clone() else {
                    return Ok(());
                };
                let previous = Some(current.cert().clone());
                (Authorities::new(next, None, previous), true)
            }
            Step::Retire => (
                Authorities::new(current, authorities.next.clone(), None),
                false,
            ),
        };
        let written = self.secret.write(&stored, &new, answered).await?;
        match step {
            Step::Wait => {}
            Step::Prepare => tracing::info!("next certificate authority made"),
            Step::Promote if waited_for.is_empty() => {
                tracing::info!("the next certificate authority signs from now on");
            }
            Step::Promote => {
                let pods: Vec<_> = waited_for
                    .iter()
                    .take(NAMED)
                    .map(|p| p.to_string())
                    .collect();
                tracing::warn!(
                    count = waited_for.len(),
                    pods = pods.join(" "),
                    "the next certificate authority signs from now on; these pods' sidecars don't know it and will find the operator no more once their channel breaks: replace the pods"
                );
            }
            Step::Retire => tracing::info!("an earlier certificate authority is no longer trusted"),
        }
        self.publish(&written);
        Ok(())
    }

    /// Notes whether all API servers are told to trust the next authority.
    fn note(&self, authorities: &Authorities, told: &mut Option<Told>) {
        let next = authorities.next.as_ref().map(|next| &next.cert().pem);
        let entries = self
            .entries
            .as_ref()
            .map(|entries| entries.borrow().clone());
        let next = next.filter(|pem| entries.is_none_or(|entries| entries.all_hold(pem)));
        *told = next.map(|pem| {
            let same = told.take().filter(|told| told.pem == *pem);
            same.unwrap_or_else(|| Told {
                pem: pem.clone(),
                since: Instant::now(),
            })
        });
    }

    fn publish(&self, stored: &Stored) {
        let changed = self.authorities.send_if_modified(|present| {
            let same = present.same(&stored.authorities);
            if !same {
                *present = stored.authorities.clone();
            }
            !same
        });
        if !changed {
            return;
        }
        self.show();
        if let Some(folder) = &self.copy
            && let Err(error) = dir::write_copy(folder, &stored.authorities.trust().pem)
        {
            tracing::error!(
                error = causes(&error),
                "no copy of the certificate authorities"
            );
        }
    }

    /// Shows their ends.
    fn show(&self) {
        let authorities = self.authorities.borrow();
        let shown = &self.metrics.certificate_ends;
        let show = |certificate, authority: Option<&Arc<Authority>>| {
            let label = Certificate { certificate };
            match authority {
                Some(authority) => {
                    let end = unix_seconds(authority.life().to) as i64;
                    shown.get_or_create(&label).set(end);
                }
                None => {
                    shown.remove(&label);
                }
            }
        };
        show("ca", Some(&authorities.current));
        show("next_ca", authorities.next.as_ref());
    }
}
