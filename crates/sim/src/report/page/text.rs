//! Numbers and names as they stand on the page.

use std::fmt::Write;

/// Text that has no meaning as HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // Would end the page for some parsers.
            char if char.is_control() => safe.push('\u{fffd}'),
            char => safe.push(char),
        }
    }
    safe
}

/// Milliseconds, in the unit that reads best.
pub(super) fn time(ms: f64) -> String {
    match ms {
        ms if ms < 0.0995 => format!("{} ms", short(ms, 2)),
        ms if ms < 9.95 => format!("{} ms", short(ms, 1)),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        ms if ms < 99_950.0 => format!("{} s", short(ms / 1e3, 1)),
        ms => format!("{:.0} s", ms / 1e3),
    }
}

/// Seconds since the start, beside ticks that are `step` apart.
pub(super) fn moment(seconds: f64, step: f64) -> String {
    match step {
        step if step >= 86_400.0 => format!("{} d", short(seconds / 86_400.0, 1)),
        step if step >= 3600.0 => format!("{} h", short(seconds / 3600.0, 1)),
        step if step >= 60.0 => format!("{} min", short(seconds / 60.0, 1)),
        _ => format!("{} s", short(seconds, 2)),
    }
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p > 0.0 && p < 0.05 => "< 0.1 %".to_owned(),
        p => format!("{} %", short(p, 1)),
    }
}

/// A count, with thin spaces between its thousands.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// What isn't there.
pub(super) const NOTHING: &str = "–";

/// A number of at most so many decimals, without zeros at its end.
pub(super) fn short(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Appends formatted text.
macro_rules! put {
    ($page:expr, $($text:tt)*) => {{
        // Writing to a string can't fail.
        let _ = ::std::fmt::Write::write_fmt($page, format_args!($($text)*));
    }};
}
pub(super) use put;

/// Words with commas and an "and".
pub(super) fn list(words: &[String]) -> String {
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        let between = match at {
            0 => "",
            at if at + 1 == words.len() => " and ",
            _ => ", ",
        };
        let _ = write!(text, "{between}{word}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(time(0.05), "0.05 ms");
        assert_eq!(time(8.25), "8.2 ms");
        assert_eq!(time(999.4), "999 ms");
        assert_eq!(time(1000.0), "1 s");
        assert_eq!(time(62_940.0), "62.9 s");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.0001), "< 0.1 %");
        assert_eq!(percent(0.785), "78.5 %");
        assert_eq!(moment(21_600.0, 21_600.0), "6 h");
        assert_eq!(
            escaped("<a href=\"x\">&"),
            "&lt;a href=&quot;x&quot;&gt;&amp;"
        );
    }
}
