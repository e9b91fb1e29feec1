//! Whether clients come through here, seen from inside the pod.
//!
//! Once the engine is ready each of the pod's addresses is dialled on each port that is served:
//! our own accept loop must see that very connection, or somebody else answers there. Then the
//! engine's port is dialled on the same addresses: if it answers, clients can go around the
//! sidecar. (A NetworkPolicy may still keep them off; from inside that can't be seen.)

use crate::{dial::EngineAddress, readiness::EngineState, run::Port};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpStream, sync::watch};

/// An engine may be restarted with other arguments.
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// Within the pod a connection is there at once or not at all.
const DIAL_TIMEOUT: Duration = Duration::from_secs(2);

/// The accept loop has many connections to take before ours, perhaps.
const SEEN_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Callers that are remembered while a check runs.
const REMEMBERED: usize = 65_536;

/// Who connects to the traffic ports while a check runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Callers {
    looking: Arc<AtomicBool>,
    seen: Arc<Mutex<HashSet<SocketAddr>>>,
}

/// What a check found. `None`: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether all addresses and ports lead here.
    pub(crate) reached: Option<bool>,
    /// Whether the engine answers on the pod's own addresses.
    pub(crate) bypassable: Option<bool>,
}

// === impl Callers ===

impl Callers {
    pub(crate) fn note(&self, peer: SocketAddr) {
        if self.looking.load(Ordering::Relaxed) {
            let mut seen = self.seen.lock();
            if seen.len() < REMEMBERED {
                seen.insert(plain(peer));
            }
        }
    }

    async fn saw(&self, peer: SocketAddr) -> bool {
        let look = async {
            while !self.seen.lock().contains(&plain(peer)) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(SEEN_WITHIN, look).await.is_ok()
    }
}

/// An IPv6 listener shows IPv4 peers as mapped ones.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Checks for as long as the process lives.
pub(crate) async fn watch(
    ports: Vec<Port>,
    addresses: Vec<IpAddr>,
    callers: Callers,
    mut engine: watch::Receiver<EngineState>,
    found: Arc<ArcSwap<Found>>,
) {
    if addresses.is_empty() {
        return;
    }
    loop {
        let _ = engine.wait_for(EngineState::is_ready).await;
        let now = check(&ports, &addresses, &callers).await;
        if **found.load() != now {
            if now.reached == Some(false) {
                tracing::error!("another program answers on a port that is served here");
            }
            tracing::info!(
                reached = now.reached,
                bypassable = now.bypassable,
                "self-check"
            );
        }
        found.store(Arc::new(now));
        tokio::time::sleep(CHECK_EVERY).await;
    }
}

async fn check(ports: &[Port], addresses: &[IpAddr], callers: &Callers) -> Found {
    callers.looking.store(true, Ordering::Relaxed);
    let mut reached = true;
    let mut bypassable = false;
    for &address in addresses {
        for port in ports {
            reached &= leads_here(address, port.listen.port(), callers).await;
            if let EngineAddress::Tcp(engine) = &port.upstream
                && let Some(number) = engine.port_u16()
            {
                bypassable |= dial(address, number).await.is_some();
            }
        }
    }
    callers.looking.store(false, Ordering::Relaxed);
    callers.seen.lock().clear();
    Found {
        reached: Some(reached),
        bypassable: Some(bypassable),
    }
}

async fn leads_here(address: IpAddr, port: u16, callers: &Callers) -> bool {
    let Some(stream) = dial(address, port).await else {
        return false;
    };
    match stream.local_addr() {
        Ok(own) => callers.saw(own).await,
        Err(_) => false,
    }
}

async fn dial(address: IpAddr, port: u16) -> Option<TcpStream> {
    let dialled = tokio::time::timeout(DIAL_TIMEOUT, TcpStream::connect((address, port))).await;
    dialled.ok()?.ok()
}
