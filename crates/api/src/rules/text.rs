//! What the patterns of the rules accept, without a pattern engine.

/// A DNS subdomain, as objects are named.
pub(super) fn is_object_name(text: &str) -> bool {
    let inner = |b: u8| b == b'-' || b.is_ascii_lowercase() || b.is_ascii_digit();
    let outer = |b: u8| b != b'-' && inner(b);
    text.split('.')
        .all(|part| enclosed(part.as_bytes(), outer, inner))
}

/// A label's key: a name of at most 63 characters, after a prefix and `/` at will.
pub(super) fn is_label_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let inner = |b: u8| b == b'-' || b == b'.' || b.is_ascii_lowercase() || b.is_ascii_digit();
    let outer = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    prefix.is_none_or(|prefix| enclosed(prefix.as_bytes(), outer, inner))
        && name.len() <= 63
        && !name.is_empty()
        && is_label_value(name)
}

/// A label's value: empty, or a name.
pub(super) fn is_label_value(text: &str) -> bool {
    let inner = |b: u8| matches!(b, b'-' | b'_' | b'.') || b.is_ascii_alphanumeric();
    let outer = |b: u8| b.is_ascii_alphanumeric();
    text.is_empty() || enclosed(text.as_bytes(), outer, inner)
}

/// A header's name by RFC 9110, but for the quote, which no header in use has.
pub(super) fn is_header_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-!#$%&*+.^_`|~".contains(&b))
}

/// Field names joined by dots.
pub(super) fn is_json_path(text: &str) -> bool {
    text.split('.').all(|name| {
        !name.is_empty()
            && name
                .bytes()
                .all(|b| matches!(b, b'-' | b'_') || b.is_ascii_alphanumeric())
    })
}

/// An IPv4 CIDR exactly, an IPv6 one roughly: what patterns can do. Whoever uses the addresses
/// parses them, and says so where it fails.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let number = |text: &str, most: u32| {
        let canonical = text == "0" || !text.starts_with('0');
        (1..=3).contains(&text.len())
            && canonical
            && text.bytes().all(|b| b.is_ascii_digit())
            && text.parse().is_ok_and(|n: u32| n <= most)
    };
    let hex = |b: u8| b.is_ascii_hexdigit() || b == b':';
    match address.split_once(':') {
        Some((front, back)) => {
            front.bytes().all(hex)
                && back.bytes().all(|b| hex(b) || b == b'.')
                && number(length, 128)
        }
        None => {
            address.split('.').count() == 4
                && address.split('.').all(|part| number(part, 255))
                && number(length, 32)
        }
    }
}

/// Begins and ends with an outer byte, with inner ones between.
fn enclosed(text: &[u8], outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match text {
        [] => false,
        [one] => outer(*one),
        [first, middle @ .., last] => {
            outer(*first) && outer(*last) && middle.iter().all(|b| inner(*b))
        }
    }
}
