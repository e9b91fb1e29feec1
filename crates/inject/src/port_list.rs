//! Ports in an annotation: `8000`, `8000,8001` or `8000-8007`.

use crate::launch::MAX_PORTS;

/// Reads such a text. `None`: it can't be understood, names a port twice, or too many.
pub(crate) fn parse(text: &str) -> Option<Vec<u16>> {
    let mut ports = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u16 = first.trim().parse().ok()?;
        let last: u16 = last.trim().parse().ok()?;
        if first == 0 || last < first || last - first >= MAX_PORTS {
            return None;
        }
        for port in first..=last {
            if ports.contains(&port) {
                return None;
            }
            ports.push(port);
        }
    }
    (ports.len() <= usize::from(MAX_PORTS)).then_some(ports)
}

/// Writes ports shortly.
pub(crate) fn show(ports: &[u16]) -> String {
    let in_a_row = ports
        .windows(2)
        .all(|pair| pair.first().map(|first| first.checked_add(1)) == Some(pair.get(1).copied()));
    match ports {
        [first, _, .., last] if in_a_row => format!("{first}-{last}"),
        _ => {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            ports.join(",")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_and_written() {
        for (text, ports) in [
            ("8000", vec![8000]),
            ("8000,8002", vec![8000, 8002]),
            ("8000, 8001", vec![8000, 8001]),
            ("8000-8003", vec![8000, 8001, 8002, 8003]),
        ] {
            assert_eq!(parse(text).as_ref(), Some(&ports), "{text}");
            assert_eq!(parse(&show(&ports)), Some(ports));
        }
        for text in [
            "",
            "0",
            "70000",
            "8001-8000",
            "a",
            "8000,8000",
            "1-999",
            "8000,",
            "-1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(show(&[8000, 8001, 8002]), "8000-8002");
        assert_eq!(show(&[8000, 8002]), "8000,8002");
    }
}
