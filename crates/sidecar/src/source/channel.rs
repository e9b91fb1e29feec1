//! Policies from the operator: one HTTP/2 stream over TLS, opened from here.
//!
//! Whatever happens to it, traffic goes on under the policy in force: the channel only brings
//! changes. It reconnects for ever, with full jitter so that a thousand sidecars don't come back
//! at the same moment.

mod connect;
mod lines;

use self::{
    connect::{ConnectError, Endpoint, Opened},
    lines::{Lines, LinesError},
};
use crate::{
    admission::Admission,
    in_force::{PolicySeat, Source},
    metrics::{ClassLabel, Metrics},
    pod_state::PodState,
    source::{
        kept::{Kept, KeptPolicy},
        trust::Trust,
    },
};
use bytes::Bytes;
use fairtide_policy::{ClassReport, Message, PROTOCOL_VERSION, Policy, Report};
use fairtide_resolve::ObjectKey;
use fairtide_scheduler::{Outcome, Snapshot};
use http::{StatusCode, Uri};
use rand::Rng;
use serde::Deserialize;
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::MissedTickBehavior};

/// The first pause between attempts is up to this long...
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// ... and doubles with each failure up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Redirects that are followed at one attempt; a lease moves once.
const MAX_REDIRECTS: usize = 3;

/// How often the pod's figures are reported.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Lines on their way out that wait for the connection. Reports are dropped when it is full.
const OUTGOING: usize = 16;

/// Where the operator is and who we are.
#[derive(Clone, Debug)]
pub struct ChannelConfig {
    /// `https://HOST:PORT` of the operator's Service.
    pub url: Uri,
    /// Who signs its certificate, beside those whom it names itself over the channel.
    pub ca: Authorities,
    /// File with the token that says which pod this is; read at each attempt, since kubelets
    /// renew it.
    pub token: PathBuf,
    /// The pod.
    pub pod: ObjectKey,
    /// Folder in which the last policy and authorities are kept across restarts.
    pub state: Option<PathBuf>,
    /// The policy to obey until one comes, if nothing is kept. `None`: one without limits.
    pub first: Option<Box<Policy>>,
}

/// Certificate authorities.
#[derive(Clone, Debug)]
pub enum Authorities {
    /// In a PEM file, read at each attempt.
    File(PathBuf),
    /// PEM.
    Pem(String),
}

/// The sidecar's end of the channel.
pub(crate) struct Channel {
    pub(crate) config: ChannelConfig,
    pub(crate) kept: Option<KeptPolicy>,
    pub(crate) seat: PolicySeat,
    pub(crate) admission: Admission,
    pub(crate) metrics: Metrics,
    pub(crate) state: PodState,
}

/// Why a channel ended.
#[derive(Debug, thiserror::Error)]
enum ChannelError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the operator answers {0}: {1}")]
    Refused(StatusCode, String),
    #[error("the operator redirects more than {MAX_REDIRECTS} times")]
    Redirects,
    #[error(transparent)]
    Lines(#[from] LinesError),
    #[error("the operator closed the channel")]
    Closed,
}

/// What of any line can be read, whatever its version.
#[derive(Debug, Deserialize)]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    v: u32,
    #[serde(default)]
    version: String,
    #[serde(default)]
    policy: serde_json::Value,
    #[serde(default)]
    pem: String,
}

// === impl Channel ===

impl Channel {
    /// Keeps the channel open for as long as the process lives.
    pub(crate) async fn follow(self) {
        let trust = Trust::load(self.config.state.as_deref());
        let mut failures = 0;
        loop {
            let error = match self.converse(&trust, &mut failures).await {
                Ok(never) => match never {},
                Err(error) => error,
            };
            self.metrics.channel_connected.set(0);
            let pause = pause(failures, &mut rand::rng());
            failures = failures.saturating_add(1);
            let pause_ms = pause.as_millis() as u64;
            // The first failure is news; those that follow are the same news.
            if failures == 1 {
                tracing::warn!(%error, pause_ms, "no channel to the operator; the policy in force stays");
            } else {
                tracing::debug!(%error, pause_ms, failures, "still no channel to the operator");
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn converse(
        &self,
        trust: &Trust,
        failures: &mut u32,
    ) -> Result<std::convert::Infallible, ChannelError> {
        let (out, opened) = self.open(trust).await?;
        let mut lines = Lines::new(opened.body);
        // Dropping this would close the connection.
        let _connection = opened.connection;
        self.metrics.channel_connected.set(1);
        tracing::info!(pod = %self.config.pod, "channel open");
        let mut reports = tokio::time::interval(REPORT_EVERY);
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                line = lines.next() => {
                    let line = line?.ok_or(ChannelError::Closed)?;
                    // It is an operator, and it talks to us.
                    *failures = 0;
                    if let Some(answer) = self.obey(&line, trust).await {
                        let closed = |_| ChannelError::Closed;
                        out.send(encode(&answer)).await.map_err(closed)?;
                    }
                }
                _ = reports.tick() => {
                    let report = self.report().await;
                    let v = PROTOCOL_VERSION;
                    let _ = out.try_send(encode(&Message::Report { v, report }));
                }
            }
        }
    }

    /// Connects, follows redirects, and says hello.
    async fn open(&self, trust: &Trust) -> Result<(mpsc::Sender<Bytes>, Opened), ChannelError> {
        let endpoint = Endpoint::read(&self.config, trust).await?;
        let mut address = endpoint.own_address();
        for _ in 0..=MAX_REDIRECTS {
            let (out, lines) = mpsc::channel(OUTGOING);
            let hello = encode(&self.hello());
            // There is room: nothing else has been sent.
            let _ = out.try_send(hello);
            let opened = endpoint.open(&address, lines).await?;
            match opened.status {
                StatusCode::OK => return Ok((out, opened)),
                StatusCode::TEMPORARY_REDIRECT => {
                    let Some(elsewhere) = opened.location() else {
                        let text = "without a location".to_owned();
                        return Err(ChannelError::Refused(opened.status, text));
                    };
                    tracing::debug!(%elsewhere, "the lease is held elsewhere");
                    address = elsewhere;
                }
                status => return Err(ChannelError::Refused(status, opened.text().await)),
            }
        }
        Err(ChannelError::Redirects)
    }

    fn hello(&self) -> Message {
        Message::Hello {
            v: PROTOCOL_VERSION,
            pod: self.config.pod.to_string(),
            sidecar_version: env!("CARGO_PKG_VERSION").to_owned(),
            applied: self.applied(),
        }
    }

    fn applied(&self) -> Option<String> {
        let current = self.seat.load();
        current.is_the_operators().then(|| current.version.clone())
    }

    /// Does what a line says, and gives the answer to it. A line of a kind that is not known here
    /// is passed over: a newer operator may say more than this sidecar understands.
    async fn obey(&self, line: &[u8], trust: &Trust) -> Option<Message> {
        let envelope = match serde_json::from_slice::<Envelope>(line) {
            Ok(envelope) if envelope.kind == "snapshot" => envelope,
            Ok(envelope) if envelope.kind == "authorities" => {
                return learn(envelope, trust).await;
            }
            Ok(envelope) => {
                tracing::debug!(kind = envelope.kind, "unknown message passed over");
                return None;
            }
            Err(error) => {
                tracing::warn!(%error, "a line of the operator is no message");
                return None;
            }
        };
        let version = envelope.version.clone();
        let v = PROTOCOL_VERSION;
        match self.put_in_force(envelope).await {
            Ok(()) => Some(Message::Ack { v, version }),
            Err(reason) => {
                tracing::error!(%version, reason, "policy refused; the one before stays in force");
                Some(Message::Nack { v, version, reason })
            }
        }
    }

    async fn put_in_force(&self, envelope: Envelope) -> Result<(), String> {
        let refuse = |reason: String| {
            self.metrics.policies_refused.inc();
            reason
        };
        if envelope.v > PROTOCOL_VERSION {
            let text = format!(
                "protocol version {} is newer than this sidecar's {PROTOCOL_VERSION}",
                envelope.v
            );
            return Err(refuse(text));
        }
        let policy = serde_json::from_value::<Policy>(envelope.policy);
        let policy = policy.map_err(|error| refuse(error.to_string()))?;
        let kept = Kept {
            version: envelope.version.clone(),
            policy: policy.clone(),
        };
        self.seat
            .put_in_force(policy, envelope.version, Source::Channel)
            .await
            .map_err(|error| error.to_string())?;
        // In force is in force: that it can't be kept is a matter of the next restart.
        if let Some(folder) = self.kept.clone() {
            let stored = tokio::task::spawn_blocking(move || folder.store(&kept)).await;
            if let Ok(Err(error)) = stored {
                tracing::warn!(%error, "the policy can't be kept for the next start");
            }
        }
        Ok(())
    }

    async fn report(&self) -> Report {
        let snapshot = self.admission.snapshot().await;
        let mode = self.seat.load().mode;
        Report {
            applied: self.applied(),
            in_flight: snapshot.in_flight,
            in_flight_tokens: snapshot.in_flight_tokens,
            token_limit: snapshot.token_limit,
            mode: Some(mode.word().to_owned()),
            mode_source: Some(mode.source.to_owned()),
            ready: Some(self.state.health.is_ready()),
            phase: Some(self.state.lifecycle.phase().word().to_owned()),
            bypassable: self.state.found.load().bypassable,
            classes: self.class_reports(&snapshot),
        }
    }

    fn class_reports(&self, snapshot: &Snapshot) -> Vec<ClassReport> {
        let report = |class: &fairtide_scheduler::ClassSnapshot| {
            let name: &Arc<str> = &class.name;
            let arrivals = self.metrics.arrivals.get(&ClassLabel::new(name));
            ClassReport {
                name: name.to_string(),
                offered: arrivals.map_or(0, |counter| counter.get()),
                completed: self.metrics.ended(name, |o| o == Outcome::Completed),
                refused: self.metrics.ended(name, Outcome::is_refusal),
                served_cost: class.served_cost,
                queued: class.queued,
                in_flight: class.in_flight,
            }
        };
        snapshot.classes.iter().map(report).collect()
    }
}

/// What isn't answered is not used by the operator before it must.
async fn learn(envelope: Envelope, trust: &Trust) -> Option<Message> {
    let (v, version) = (PROTOCOL_VERSION, envelope.version);
    let learned = match envelope.v > v {
        true => Err(format!("protocol version {} is newer than {v}", envelope.v)),
        false => trust.learn(envelope.pem).await,
    };
    match learned {
        Ok(()) => Some(Message::Trusting { v, version }),
        Err(reason) => {
            tracing::error!(%version, reason, "new certificate authorities of the operator not taken");
            None
        }
    }
}

fn encode(message: &Message) -> Bytes {
    let mut line = serde_json::to_vec(message).expect("messages have only string keys");
    line.push(b'\n');
    line.into()
}

/// Full jitter: anything up to the bound, so that those who failed together come back apart.
fn pause(failures: u32, rng: &mut impl Rng) -> Duration {
    let factor = 2u32.saturating_pow(failures.min(16));
    let bound = FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE);
    bound.mul_f64(rng.random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::SmallRng};

    #[test]
    fn pauses_grow_and_are_spread() {
        let mut rng = SmallRng::seed_from_u64(3);
        let longest = |failures, rng: &mut SmallRng| {
            let pauses = (0..1000).map(|_| pause(failures, rng));
            pauses.max().expect("a thousand")
        };
        assert!(longest(0, &mut rng) <= FIRST_PAUSE);
        assert!(longest(4, &mut rng) > FIRST_PAUSE * 8);
        for failures in [9, 40, u32::MAX] {
            let longest = longest(failures, &mut rng);
            assert!(longest <= LONGEST_PAUSE && longest > LONGEST_PAUSE / 2);
        }
        assert!(pause(9, &mut rng) != pause(9, &mut rng));
    }
}
