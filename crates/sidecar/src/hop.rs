//! Headers that are meant for one hop only, and those that a client may not set.

use fairtide_engine::PRIVILEGED_HEADERS;
use http::{HeaderMap, HeaderName, header};

/// Hop-by-hop by the HTTP specification.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The prefix of the headers that Fairtide itself reads and writes.
const OWN_PREFIX: &str = "x-fairtide-";

/// Removes what belongs to one hop, also what `Connection` names as such. Applies both ways.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // What frames or routes the message is never a matter of one hop.
        .filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH)
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Removes what a client may not say to the engine: its own priority, and Fairtide's headers
/// unless the peer is trusted.
pub(crate) fn strip_privileges(headers: &mut HeaderMap, trusted: bool) {
    for name in PRIVILEGED_HEADERS {
        headers.remove(*name);
    }
    if trusted {
        return;
    }
    let own: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with(OWN_PREFIX))
        .cloned()
        .collect();
    for name in own {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let value = http::HeaderValue::from_static(value);
            (HeaderName::from_static(name), value)
        });
        pairs.collect()
    }

    #[test]
    fn what_connection_names_goes_with_it() {
        let mut map = headers(&[
            ("connection", "close, X-Foo, host"),
            ("x-foo", "1"),
            ("host", "model.example"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("x-kept", "1"),
        ]);
        strip_hop_by_hop(&mut map);
        assert_eq!(map, headers(&[("host", "model.example"), ("x-kept", "1")]));
    }

    #[test]
    fn a_client_cannot_set_its_own_priority() {
        let sent = [("x-vllm-priority", "-9"), ("x-fairtide-class", "top")];
        let mut map = headers(&sent);
        strip_privileges(&mut map, false);
        assert!(map.is_empty());
        let mut map = headers(&sent);
        strip_privileges(&mut map, true);
        assert_eq!(map, headers(&[("x-fairtide-class", "top")]));
    }
}
