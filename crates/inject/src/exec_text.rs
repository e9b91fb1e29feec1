//! The engine's port in the commands of exec probes and hooks.
//!
//! `curl http://localhost:8000/health` as a liveness probe would ask the sidecar after the port
//! was taken: a sidecar in trouble would get a healthy engine restarted, and hours of loading with
//! it. A port in an address of this host is changed; any other mention can't be judged.

/// What became of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rewritten {
    /// It doesn't speak of the port.
    Same,
    /// It does, and was changed.
    Changed(String),
    /// It does, in another way.
    Unclear,
}

/// Names of this host in an address; the empty one stands in `:8000`.
const HOSTS: &[&str] = &["localhost", "127.0.0.1", "0.0.0.0", "[::1]", "[::]", ""];

/// What may come before an address.
const BEFORE: &[char] = &[' ', '\t', '\n', '\'', '"', '=', '/', '(', ',', '<', '`'];

/// Changes ports in a word. `moved` tells the new number of a port, if it moved.
pub(crate) fn rewrite(word: &str, moved: impl Fn(u16) -> Option<u16>) -> Rewritten {
    let mut out = String::with_capacity(word.len());
    let mut changed = false;
    let mut rest = word;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let end = from.find(|c: char| !c.is_ascii_digit());
        let (digits, after) = from.split_at(end.unwrap_or(from.len()));
        rest = after;
        let new = digits.parse().ok().and_then(&moved);
        match new {
            Some(new) if is_port_of_this_host(&out) && !continues(after) => {
                out.push_str(&new.to_string());
                changed = true;
            }
            Some(_) => return Rewritten::Unclear,
            None => out.push_str(digits),
        }
    }
    out.push_str(rest);
    if changed {
        Rewritten::Changed(out)
    } else {
        Rewritten::Same
    }
}

/// Whether a word reads a shell variable.
pub(crate) fn reads_variable(word: &str, name: &str) -> bool {
    if word.contains(&format!("${{{name}}}")) || word.contains(&format!("${{{name}:")) {
        return true;
    }
    let plain = format!("${name}");
    word.match_indices(&plain).any(|(at, _)| {
        let after = word[at + plain.len()..].chars().next();
        !after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn is_port_of_this_host(before: &str) -> bool {
    let Some(before) = before.strip_suffix(':') else {
        return false;
    };
    HOSTS.iter().any(|host| {
        let before = before.strip_suffix(host);
        before.is_some_and(|before| before.is_empty() || before.ends_with(BEFORE))
    })
}

/// Whether a number goes on, as in `8000.5` or `8000x`.
fn continues(after: &str) -> bool {
    let mut after = after.chars();
    match after.next() {
        Some('.') => after.next().is_some_and(|c| c.is_ascii_digit()),
        Some(c) => c.is_ascii_alphanumeric() || c == '_' || c == ':',
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(word: &str) -> Rewritten {
        rewrite(word, |port| (port == 8000).then_some(28_000))
    }

    #[test]
    fn an_address_of_this_host_is_changed() {
        for (word, changed) in [
            (
                "http://localhost:8000/health",
                "http://localhost:28000/health",
            ),
            ("curl -sf 127.0.0.1:8000", "curl -sf 127.0.0.1:28000"),
            ("-addr=:8000", "-addr=:28000"),
            ("http://[::1]:8000/v1?n=1", "http://[::1]:28000/v1?n=1"),
            (
                "curl \"http://localhost:8000/a\" && curl 'http://localhost:8000/b'",
                "curl \"http://localhost:28000/a\" && curl 'http://localhost:28000/b'",
            ),
        ] {
            assert_eq!(
                after(word),
                Rewritten::Changed(changed.to_owned()),
                "{word}"
            );
        }
    }

    #[test]
    fn what_does_not_speak_of_the_port_stays() {
        for word in [
            "pgrep vllm",
            "sleep 15",
            "http://localhost:18000/",
            "80001",
            "",
        ] {
            assert_eq!(after(word), Rewritten::Same, "{word}");
        }
    }

    #[test]
    fn any_other_mention_is_unclear() {
        for word in [
            "--port=8000",
            "8000",
            "nc -z localhost 8000",
            "http://mylocalhost:8000/",
            "http://vllm:8000/",
            "/dev/tcp/127.0.0.1/8000",
            "localhost:8000.5",
        ] {
            assert_eq!(after(word), Rewritten::Unclear, "{word}");
        }
    }

    #[test]
    fn shell_variables_are_seen() {
        for (word, reads) in [
            ("curl localhost:$PORT/health", true),
            ("curl localhost:${PORT}/health", true),
            ("${PORT:-8000}", true),
            ("$PORTS", false),
            ("PORT", false),
        ] {
            assert_eq!(reads_variable(word, "PORT"), reads, "{word}");
        }
    }
}
