//! Kubernetes quantities, as far as comparing them goes: `1`, `1000m`, `1Gi`, `1.5`, `1e3`.

use serde_json::Value;

/// Powers of ten in a unit, of 1e-9.
const DECIMAL: &[(&str, u32)] = &[
    ("n", 0),
    ("u", 3),
    ("m", 6),
    ("", 9),
    ("k", 12),
    ("M", 15),
    ("G", 18),
    ("T", 21),
    ("P", 24),
    ("E", 27),
];
/// Powers of two in a unit.
const BINARY: &[(&str, u32)] = &[
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];
const NANO: u32 = 9;

/// A quantity in billionths. `None`: it isn't one, or is beyond all that exists.
pub(crate) fn parse(text: &str) -> Option<i128> {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (digits, unit) = unsigned.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let value: i128 = format!("{whole}{fraction}").parse().ok()?;
    let below = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let scale = scale(unit)?;
    Some(value.checked_mul(scale)? / below)
}

/// A quantity as JSON has it: a string, or a plain number.
pub(crate) fn of(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => parse(text),
        Value::Number(number) => parse(&number.to_string()),
        _ => None,
    }
}

fn scale(unit: &str) -> Option<i128> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == unit) {
        return 10i128.checked_pow(*power);
    }
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == unit) {
        return 10i128.checked_pow(NANO)?.checked_shl(*power);
    }
    let exponent = unit.strip_prefix(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let power = i32::try_from(NANO).ok()?.checked_add(exponent)?;
    10i128.checked_pow(u32::try_from(power).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_quantities_are_equal_however_they_are_written() {
        for (one, other) in [
            ("1", "1000m"),
            ("1Gi", "1073741824"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("0.25", "250m"),
            (".5", "500m"),
            ("2E", "2e18"),
            ("+1", "1"),
            ("128974848", "128974848000m"),
        ] {
            assert!(parse(one).is_some(), "{one}");
            assert_eq!(parse(one), parse(other), "{one} {other}");
        }
        assert_eq!(of(&serde_json::json!(2)), parse("2"));
        assert_eq!(of(&serde_json::json!(0.5)), parse("500m"));
    }

    #[test]
    fn what_is_no_quantity_is_none() {
        for text in [
            "", "m", "1 Gi", "1gi", "-1", "1.2.3", "1e", "1e99", "one", "1Kim", ".",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
