//! The name of a request in headers, logs and the ring: the client's own if it is sane, else a
//! new one. The engine is told the same, so that one name leads through all three logs.

use http::{HeaderMap, HeaderValue};
use std::sync::Arc;

const HEADER: &str = "x-request-id";

/// Longer ones are no names.
const MAX_LENGTH: usize = 128;

/// The request's name; the headers carry it from now on.
pub(crate) fn request_id(headers: &mut HeaderMap) -> Arc<str> {
    let sent = headers.get(HEADER).and_then(|value| value.to_str().ok());
    if let Some(id) = sent.filter(|id| is_sane(id)) {
        return id.into();
    }
    let id = format!("{:032x}", rand::random::<u128>());
    let value = HeaderValue::from_str(&id).expect("hex digits make a header value");
    headers.insert(HEADER, value);
    id.into()
}

fn is_sane(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(&byte);
    (1..=MAX_LENGTH).contains(&id.len()) && id.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sane_id_is_kept_and_any_other_replaced() {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_static("req-1.a:b"));
        assert_eq!(&*request_id(&mut headers), "req-1.a:b");
        let long = "x".repeat(MAX_LENGTH + 1);
        for odd in ["", "a b", "<script>", long.as_str()] {
            headers.insert(HEADER, HeaderValue::from_str(odd).expect("a value"));
            let id = request_id(&mut headers);
            assert_eq!(id.len(), 32, "{odd}");
            assert_eq!(headers[HEADER], *id);
        }
    }
}
