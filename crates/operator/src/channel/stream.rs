//! One open channel: snapshots out, answers in.
//!
//! There is no queue: while a sidecar is slow to read, newer policies replace the one that waits, and
//! it gets only the last; so it is with the authorities to trust. One that doesn't take it within [`SLOW_READER`] is cut,
//! and starts over with a fresh connection.

use super::{ca::Authorities, lines::Lines, trust::Trust};
use crate::{
    fleet::{Link, Push},
    lease::Claim,
    metrics::{Cause, Metrics},
};
use bytes::Bytes;
use fairtide_policy::Message;
use hyper::body::Incoming;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// A snapshot that can't be handed over for this long ends the connection.
pub const SLOW_READER: Duration = Duration::from_secs(10);

/// A sidecar's reason is shown to people; more of it than this helps nobody.
const MAX_REASON_CHARS: usize = 500;

/// What one channel needs.
pub struct Stream {
    /// The pod's place in the fleet.
    pub link: Link,
    /// What the sidecar sends.
    pub lines: Lines<Incoming>,
    /// The response body. One place: what waits here is already taken.
    pub out: mpsc::Sender<Bytes>,
    /// Whether this replica may push.
    pub claim: watch::Receiver<Claim>,
    /// Whom the sidecar shall trust.
    pub authorities: watch::Receiver<Arc<Authorities>>,
    /// Fires when the operator ends.
    pub stop: CancellationToken,
    /// Cuts the connection, whatever its buffers hold.
    pub cut: CancellationToken,
    /// Where things are counted.
    pub metrics: Arc<Metrics>,
}

/// What is to be sent next.
struct Due {
    policy: Option<Arc<Push>>,
    trust: Option<Arc<Trust>>,
}

/// Why a channel ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Left,
    Stopped,
    Superseded,
    LeaseElsewhere,
    Slow,
    Protocol(String),
}

// === impl Stream ===

impl Stream {
    /// Serves the channel to its end.
    pub async fn run(mut self) {
        let end = self.converse().await;
        let cause = match &end {
            End::Left | End::Stopped | End::LeaseElsewhere => None,
            End::Superseded => Some("superseded"),
            End::Slow => Some("slow_reader"),
            End::Protocol(_) => Some("protocol"),
        };
        if let Some(cause) = cause {
            let cause = Cause { cause };
            self.metrics.channel_errors.get_or_create(&cause).inc();
            // The other end isn't reading, or can't be trusted to: don't wait for it.
            self.cut.cancel();
        }
        tracing::info!(pod = %self.link.pod(), ?end, "channel closed");
    }

    async fn converse(&mut self) -> End {
        let out = self.out.clone();
        let mut told = self.trust();
        let mut due = Due {
            policy: self.present(),
            trust: Some(told.clone()),
        };
        // Since when the connection takes nothing.
        let mut stuck_since = Some(Instant::now());
        loop {
            let may_push = self.claim.borrow().is_held();
            let waits = stuck_since.filter(|_| may_push || due.is_empty());
            let too_slow = waits.unwrap_or_else(Instant::now) + SLOW_READER;
            tokio::select! {
                () = self.stop.cancelled() => return End::Stopped,
                () = self.link.superseded.cancelled() => return End::Superseded,
                changed = self.link.policy.changed() => {
                    if changed.is_err() {
                        return End::Superseded;
                    }
                    due.policy = self.present();
                    stuck_since.get_or_insert_with(Instant::now);
                }
                changed = self.authorities.changed() => {
                    if changed.is_err() {
                        return End::Stopped;
                    }
                    let trust = self.trust();
                    // The same ones, of which another one signs.
                    if trust.version == told.version {
                        continue;
                    }
                    told = trust.clone();
                    due.trust = Some(trust);
                    stuck_since.get_or_insert_with(Instant::now);
                }
                changed = self.claim.changed() => {
                    if changed.is_err() {
                        return End::Stopped;
                    }
                    if matches!(*self.claim.borrow_and_update(), Claim::Other { .. }) {
                        return End::LeaseElsewhere;
                    }
                    // The time without the lease is not the sidecar's fault.
                    stuck_since = stuck_since.map(|_| Instant::now());
                }
                place = out.reserve(), if waits.is_some() => {
                    let Ok(place) = place else {
                        return End::Left;
                    };
                    // A free place says that what was sent before it was taken.
                    stuck_since = (!due.is_empty()).then(Instant::now);
                    if let Some(push) = due.policy.take() {
                        // Noted before it is on its way, so that no answer comes earlier.
                        self.link.sent(&push);
                        self.metrics.snapshots.inc();
                        place.send(push.line.clone());
                        tracing::debug!(pod = %self.link.pod(), version = %push.version, "snapshot sent");
                    } else if let Some(trust) = due.trust.take() {
                        place.send(trust.line.clone());
                    }
                }
                () = tokio::time::sleep_until(too_slow), if waits.is_some() => return End::Slow,
                line = self.lines.next() => match line {
                    Ok(Some(message)) => {
                        if let Err(end) = self.answer(message) {
                            return end;
                        }
                    }
                    Ok(None) => return End::Left,
                    Err(super::lines::LineError::Broken(_)) => return End::Left,
                    Err(error) => return End::Protocol(error.to_string()),
                },
            }
        }
    }

    fn present(&mut self) -> Option<Arc<Push>> {
        self.link.policy.borrow_and_update().clone()
    }

    fn trust(&mut self) -> Arc<Trust> {
        self.authorities.borrow_and_update().trust().clone()
    }

    fn answer(&self, message: Message) -> Result<(), End> {
        match message {
            Message::Ack { version, .. } => {
                self.metrics.acks.inc();
                tracing::debug!(pod = %self.link.pod(), %version, "policy in force");
                if let Some(latency) = self.link.acked(version) {
                    self.metrics.push_seconds.observe(latency.as_secs_f64());
                }
                Ok(())
            }
            Message::Nack {
                version,
                mut reason,
                ..
            } => {
                self.metrics.nacks.inc();
                if let Some((end, _)) = reason.char_indices().nth(MAX_REASON_CHARS) {
                    reason.truncate(end);
                }
                tracing::warn!(pod = %self.link.pod(), %version, %reason, "sidecar refuses the policy");
                self.link.nacked(version, reason);
                Ok(())
            }
            Message::Trusting { version, .. } => {
                self.link.trusting(version);
                Ok(())
            }
            Message::Unknown => Ok(()),
            Message::Report { report, .. } => {
                self.link.reported(report);
                Ok(())
            }
            Message::Hello { .. } => Err(End::Protocol("a second hello".to_owned())),
            Message::Snapshot { .. } | Message::Authorities { .. } => Err(End::Protocol(
                "an operator's message from a sidecar".to_owned(),
            )),
        }
    }
}

// === impl Due ===

impl Due {
    fn is_empty(&self) -> bool {
        self.policy.is_none() && self.trust.is_none()
    }
}
