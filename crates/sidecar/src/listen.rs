//! The listeners. `[::]` means every address of the pod, also where there is no IPv6.
//!
//! In a pod the supervisor opens them and hands them to its worker ([`crate::supervise`]), so that
//! clients that come while no worker lives wait a moment and aren't turned away.
//!
//! `SO_REUSEPORT` is never set: vLLM sets it, and if both did, the kernel would hand part of the
//! clients to the engine, around all rules.

use crate::run::{Config, StartError};
use listenfd::ListenFd;
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::fd::{AsFd, BorrowedFd},
};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// What a sidecar takes connections on.
#[derive(Debug)]
pub struct Listeners {
    /// In the order of the configuration's ports.
    pub(crate) ports: Vec<TcpListener>,
    pub(crate) admin: TcpListener,
}

/// The supervisor handed on something else than the configuration asks for.
#[derive(Debug, thiserror::Error)]
#[error("listener {at} of {wanted} wasn't handed on: {why}")]
pub struct NotInherited {
    at: usize,
    wanted: usize,
    why: String,
}

impl Listeners {
    /// Opens all of them.
    ///
    /// # Errors
    /// One can't be had. Traffic on the others would go around it, so none is kept.
    pub fn open(config: &Config) -> Result<Self, StartError> {
        let bind = |address| bind(address).map_err(|source| StartError::Listen { address, source });
        let ports = config.ports.iter().map(|port| bind(port.listen));
        Ok(Self {
            ports: ports.collect::<Result<_, _>>()?,
            admin: bind(config.admin)?,
        })
    }

    /// Takes those that the supervisor opened for the same configuration. Changes the environment,
    /// so no other thread may run yet.
    ///
    /// # Errors
    /// They aren't there.
    pub fn inherited(config: &Config) -> Result<Self, NotInherited> {
        let mut handed = ListenFd::from_env();
        let wanted = config.ports.len() + 1;
        let mut take = |at| {
            let wrong = |why: String| NotInherited { at, wanted, why };
            let listener = handed.take_tcp_listener(at);
            let listener = listener.map_err(|error| wrong(error.to_string()))?;
            let listener = listener.ok_or_else(|| wrong("there are fewer".to_owned()))?;
            let ready = listener.set_nonblocking(true);
            ready.map_err(|error| wrong(error.to_string()))?;
            Ok(listener)
        };
        let ports = (0..config.ports.len()).map(&mut take);
        Ok(Self {
            ports: ports.collect::<Result<_, _>>()?,
            admin: take(config.ports.len())?,
        })
    }

    /// In the order in which [`Self::inherited`] takes them.
    pub(crate) fn all(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ports.iter().chain([&self.admin]).map(AsFd::as_fd)
    }
}

/// Listens on an address.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match open(address) {
        Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED && !has_ipv6() => {
            open((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        opened => opened,
    }
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // Whatever `net.ipv6.bindv6only` says.
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Whether an IPv6 address can be bound at all. Kernels without it have no such sockets, and with
/// `disable_ipv6` there is no address to bind.
fn has_ipv6() -> bool {
    let any: SocketAddr = (Ipv6Addr::UNSPECIFIED, 0).into();
    let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP));
    socket.is_ok_and(|socket| socket.bind(&any.into()).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wildcard_takes_ipv4_too_and_a_taken_port_is_an_error() {
        let listener = bind("[::]:0".parse().expect("an address")).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        std::net::TcpStream::connect(("127.0.0.1", port)).expect("reached over IPv4");
        let again: SocketAddr = (Ipv6Addr::UNSPECIFIED, port).into();
        assert!(bind(again).is_err());
    }
}
