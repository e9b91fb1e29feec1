//! Reads a request's body before it queues.
//!
//! Why before: as long as body bytes stand unread in the socket, hyper can't notice that the
//! client has left, and a request whose client is gone would keep its place and be run for nobody.
//! It also means that an upload which is cut half way never becomes a request at the engine.

use bytes::{Bytes, BytesMut};
use fairtide_scheduler::{Outcome, Reason, Refusal};
use http::{HeaderMap, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use prometheus_client::metrics::gauge::Gauge;
use std::{sync::atomic::AtomicU64, time::Duration};

/// Bodies in reading and waiting may take this many bytes, or one body of the largest allowed
/// size if that is more.
const POD_MEMORY: u64 = 256 << 20;

/// How long, and how much of, a body that was refused is still taken in: a client that is
/// still sending would see a reset instead of the answer.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: u64 = 256 << 20;

/// Bodies up to this size are copied out of the read buffer.
const COPIED: usize = 64 << 10;

/// Retry hint while the pod's memory is used up: uploads end within seconds.
const MEMORY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// What bodies may take.
#[derive(Clone, Debug)]
pub(crate) struct BodyLimits {
    /// One body, in bytes.
    pub(crate) max_body: u64,
    memory: u64,
    held: HeldBytes,
}

/// Bytes of bodies in memory, counted and shown in one.
pub(crate) type HeldBytes = Gauge<u64, AtomicU64>;

/// A body in memory. Its bytes count until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldBody {
    pub(crate) bytes: Bytes,
    hold: Hold,
}

/// Bytes counted against the pod's memory; given back on drop.
#[derive(Debug)]
struct Hold {
    held: HeldBytes,
    bytes: u64,
}

/// Why there is no body.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// It is refused; what is left of it should be [drained](linger).
    Refused(Refusal, Incoming),
    /// The client left or broke off.
    Gone,
}

// === impl BodyLimits ===

impl BodyLimits {
    pub(crate) fn new(max_body: u64, held: HeldBytes) -> Self {
        Self {
            max_body,
            memory: POD_MEMORY.max(max_body),
            held,
        }
    }

    /// Reads the whole body, unless it says or turns out to be too large.
    pub(crate) async fn read(&self, mut body: Incoming) -> Result<HeldBody, BodyError> {
        let announced = body.size_hint().exact();
        if announced.is_some_and(|bytes| bytes > self.max_body) {
            return Err(BodyError::Refused(too_large(), body));
        }
        let mut hold = Hold {
            held: self.held.clone(),
            bytes: 0,
        };
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return Err(BodyError::Gone);
            };
            // Trailers say nothing that an engine reads.
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if hold.bytes + data.len() as u64 > self.max_body {
                return Err(BodyError::Refused(too_large(), body));
            }
            if !hold.grow(data.len() as u64, self.memory) {
                return Err(BodyError::Refused(out_of_memory(), body));
            }
            // Most bodies come in one piece. A small one is copied, since it would keep the
            // connection's whole read buffer alive for as long as it waits.
            if first.is_empty() && rest.is_empty() {
                first = if data.len() <= COPIED {
                    Bytes::copy_from_slice(&data)
                } else {
                    data
                };
                continue;
            }
            if rest.is_empty() {
                let expected = announced.unwrap_or(0).min(self.max_body) as usize;
                rest.reserve(expected.max(first.len() + data.len()));
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
        let bytes = if rest.is_empty() {
            first
        } else {
            rest.freeze()
        };
        Ok(HeldBody { bytes, hold })
    }
}

// === impl HeldBody ===

impl HeldBody {
    /// The bytes, for the engine; what they held of the pod's memory is given back.
    pub(crate) fn release(self) -> Bytes {
        drop(self.hold);
        self.bytes
    }
}

// === impl Hold ===

impl Hold {
    fn grow(&mut self, more: u64, limit: u64) -> bool {
        let before = self.held.inc_by(more);
        if before + more > limit {
            self.held.dec_by(more);
            return false;
        }
        self.bytes += more;
        true
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.held.dec_by(self.bytes);
    }
}

/// Takes in what a client still sends of a refused body, beside its answer, within bounds. One that
/// expects to be told before it sends is told by the answer itself.
pub(crate) fn linger(mut body: Incoming, headers: &HeaderMap) {
    if body.is_end_stream() || headers.contains_key(header::EXPECT) {
        return;
    }
    tokio::spawn(async move {
        let drain = async {
            let mut taken = 0;
            while let Some(Ok(frame)) = body.frame().await {
                taken += frame.data_ref().map_or(0, Bytes::len) as u64;
                if taken > LINGER_BYTES {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(LINGER, drain).await;
    });
}

fn too_large() -> Refusal {
    Refusal {
        outcome: Outcome::TooLarge,
        reason: Reason::BodyLimit,
        retry_after: None,
        storm: false,
    }
}

fn out_of_memory() -> Refusal {
    Refusal {
        outcome: Outcome::MemoryPressure,
        reason: Reason::PodMemory,
        retry_after: Some(MEMORY_RETRY_AFTER),
        storm: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_bytes_are_bounded_and_given_back() {
        let held = HeldBytes::default();
        let empty = || Hold {
            held: held.clone(),
            bytes: 0,
        };
        let mut a = empty();
        assert!(a.grow(60, 100));
        let mut b = empty();
        assert!(!b.grow(60, 100));
        assert!(b.grow(40, 100));
        drop(a);
        assert_eq!(held.get(), 40);
        drop(b);
        assert_eq!(held.get(), 0);
    }
}
