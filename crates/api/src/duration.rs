//! Durations as the Gateway API writes them (GEP-2257): `30s`, `5m`, `1h30m`, `500ms`.

use std::time::Duration;

/// Reads `([0-9]{1,5}(h|m|s|ms)){1,4}`, nothing else: no fractions, signs or spaces. `None` where
/// the text isn't one.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut millis = 0u64;
    let mut parts = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if parts == 4 || !(1..=5).contains(&digits) {
            return None;
        }
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        // `ms` first: a lone `m` is followed by a digit or the end.
        let (unit, len) = match rest.as_bytes() {
            [b'm', b's', ..] => (1, 2),
            [b'h', ..] => (3_600_000, 1),
            [b'm', ..] => (60_000, 1),
            [b's', ..] => (1000, 1),
            _ => return None,
        };
        millis += number * unit;
        rest = &rest[len..];
        parts += 1;
    }
    (parts > 0).then(|| Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up() {
        let millis = |text| parse_duration(text).map(|d| d.as_millis());
        assert_eq!(millis("500ms"), Some(500));
        assert_eq!(millis("1h2m3s4ms"), Some(3_723_004));
        assert_eq!(millis("1m1m"), Some(120_000));
        assert_eq!(millis("99999h"), Some(99_999 * 3_600_000));
        assert_eq!(millis("0s"), Some(0));
    }

    #[test]
    fn other_spellings_are_no_durations() {
        for text in [
            "",
            "5",
            "s",
            "1.5s",
            "-1s",
            "+1s",
            "1 s",
            "1S",
            "1d",
            "1us",
            "100000s",
            "1s ",
            "1s1s1s1s1s",
            "1sm",
            "1mss",
        ] {
            assert_eq!(parse_duration(text), None, "{text:?}");
        }
    }
}
