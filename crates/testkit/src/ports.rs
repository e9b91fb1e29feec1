//! Loopback ports for programs that can't say which one they got when told to bind `:0`.

use std::{
    hash::{BuildHasher, RandomState},
    net::TcpListener,
    sync::{
        LazyLock,
        atomic::{AtomicU16, Ordering},
    },
};

/// Below the range from which kernels take the ports of outgoing connections (32768 on Linux): a
/// port that a program gives up for a moment, in a restart, isn't taken by somebody's connection.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// Where this process goes on looking. Begins at random, so that test binaries which run side by
/// side don't meet.
static NEXT: LazyLock<AtomicU16> =
    LazyLock::new(|| AtomicU16::new((RandomState::new().hash_one(0) % u64::from(COUNT)) as u16));

/// A port on which nobody listens on 127.0.0.1. Never the same twice in one process, until all
/// were given. Another process may still take it first: who can bind `:0` should do so, and others
/// try again with another port.
pub fn free_port() -> std::io::Result<u16> {
    for _ in 0..COUNT {
        let port = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(std::io::Error::other("no free port on 127.0.0.1"))
}
