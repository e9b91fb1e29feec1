//! The address that an engine binds, and how the sidecar reaches it.

use std::net::{IpAddr, Ipv4Addr};

/// The address that an engine binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// All addresses.
    Any,
    /// All addresses of an IPv6 socket.
    AnyV6,
    /// 127.0.0.1.
    Loopback,
    /// ::1.
    LoopbackV6,
    /// One address, or one that isn't known here.
    One(String),
}

// === impl Host ===

impl Host {
    pub(crate) fn parse(text: &str) -> Self {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            _ if text.is_empty() => Self::Any,
            Ok(IpAddr::V4(address)) if address.is_unspecified() => Self::Any,
            Ok(IpAddr::V6(address)) if address.is_unspecified() => Self::AnyV6,
            // Of 127/8 only the first is dialled.
            Ok(IpAddr::V4(address)) if address == Ipv4Addr::LOCALHOST => Self::Loopback,
            Ok(IpAddr::V6(address)) if address.is_loopback() => Self::LoopbackV6,
            _ if text == "localhost" => Self::Loopback,
            _ => Self::One(text.to_owned()),
        }
    }

    pub(crate) fn is_loopback(&self) -> bool {
        matches!(self, Self::Loopback | Self::LoopbackV6)
    }

    /// Whether loopback reaches it only as ::1 for sure.
    pub(crate) fn is_v6(&self) -> bool {
        matches!(self, Self::AnyV6 | Self::LoopbackV6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        for (text, host) in [
            ("", Host::Any),
            ("0.0.0.0", Host::Any),
            ("::", Host::AnyV6),
            ("[::]", Host::AnyV6),
            ("127.0.0.1", Host::Loopback),
            ("127.0.0.2", Host::One("127.0.0.2".to_owned())),
            ("localhost", Host::Loopback),
            ("::1", Host::LoopbackV6),
            ("10.0.0.1", Host::One("10.0.0.1".to_owned())),
            ("$(POD_IP)", Host::One("$(POD_IP)".to_owned())),
        ] {
            assert_eq!(Host::parse(text), host, "{text}");
        }
    }
}
