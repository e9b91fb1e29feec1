//! Opens listeners. `[::]` means every address of the pod, also where there is no IPv6.
//!
//! `SO_REUSEPORT` is never set: vLLM sets it, and if both did, the kernel would hand part of the
//! clients to the engine, around all rules.

use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};
use tokio::net::TcpListener;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Listens on an address.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
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
    TcpListener::from_std(socket.into())
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

    #[tokio::test]
    async fn the_wildcard_takes_ipv4_too_and_a_taken_port_is_an_error() {
        let listener = bind("[::]:0".parse().expect("an address")).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .expect("reached over IPv4");
        let again: SocketAddr = (Ipv6Addr::UNSPECIFIED, port).into();
        assert!(bind(again).is_err());
    }
}
