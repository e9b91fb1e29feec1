//! A container's command line, word by word, and where each word stands in the pod.

use crate::{edit::Edit, pod::Container, variables::Variables};
use serde_json::Value;

/// One word.
#[derive(Clone, Debug)]
pub(crate) struct Word<'a> {
    /// As it stands in the pod.
    raw: &'a str,
    /// With its references filled in.
    pub(crate) text: String,
    /// Whether all references were known.
    pub(crate) complete: bool,
    /// `command` or `args`.
    field: &'static str,
    index: usize,
}

/// A flag's value, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Flag {
    /// `None`: the line ends after the flag, or the value isn't known here.
    pub(crate) value: Option<String>,
    /// The value with what isn't known left as a reference.
    pub(crate) text: String,
    pub(crate) place: FlagPlace,
}

/// Where a flag's value stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FlagPlace {
    /// In a word of its own, or behind `prefix` in the flag's word.
    Word {
        /// JSON pointer below the container.
        path: String,
        /// `--port=`, or nothing.
        prefix: String,
    },
    /// Nowhere: the line ends after the flag.
    Missing,
}

/// The words of a container: its command, then its arguments.
pub(crate) fn words<'a>(container: Container<'a>, variables: &Variables<'_>) -> Vec<Word<'a>> {
    let mut words = Vec::new();
    for field in ["command", "args"] {
        for (index, word) in container.array(field).enumerate() {
            let raw = word.as_str().unwrap_or_default();
            let (text, complete) = variables.expand(raw);
            words.push(Word {
                raw,
                text: text.into_owned(),
                complete,
                field,
                index,
            });
        }
    }
    words
}

/// The last flag with one of these names: the one that counts. Both `--name value` and
/// `--name=value`; a short name's value may follow it directly.
pub(crate) fn flag(words: &[Word<'_>], names: &[&str]) -> Option<Flag> {
    let mut found = None;
    for (at, word) in words.iter().enumerate() {
        let Some(inside) = word.matches(names) else {
            continue;
        };
        found = Some(match inside {
            Inside::Value { prefix, value } => Flag {
                value: word.complete.then(|| value.clone()),
                text: value,
                place: FlagPlace::Word {
                    path: word.path(),
                    prefix,
                },
            },
            Inside::Nothing => match words.get(at + 1) {
                Some(next) => Flag {
                    value: next.complete.then(|| next.text.clone()),
                    text: next.text.clone(),
                    place: FlagPlace::Word {
                        path: next.path(),
                        prefix: String::new(),
                    },
                },
                None => Flag {
                    value: None,
                    text: String::new(),
                    place: FlagPlace::Missing,
                },
            },
        });
    }
    found
}

/// Whether a flag is there that takes no value, or is set to anything but false.
pub(crate) fn switch(words: &[Word<'_>], names: &[&str]) -> Option<bool> {
    let mut on = None;
    for word in words {
        match word.matches(names) {
            Some(Inside::Nothing) => on = Some(true),
            Some(Inside::Value { value, .. }) => on = Some(!is_false(&value)),
            None => {}
        }
    }
    on
}

/// All whole numbers that follow a flag with `port` in its name: ports that the program may bind.
pub(crate) fn port_flags(words: &[Word<'_>]) -> Vec<u16> {
    let mut ports = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let (name, value) = match word.text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.text.as_str(), None),
        };
        if !name.starts_with('-') || !name.contains("port") {
            continue;
        }
        let next = || words.get(at + 1).map(|word| word.text.as_str());
        if let Some(port) = value.or_else(next).and_then(|value| value.parse().ok()) {
            ports.push(port);
        }
    }
    ports
}

/// Writes a flag's value where the old one stood.
pub(crate) fn write(edit: &mut Edit, container: Container<'_>, place: &FlagPlace, value: &str) {
    match place {
        FlagPlace::Word { path, prefix } => {
            let path = format!("{}{path}", container.path());
            edit.set(&path, Value::String(format!("{prefix}{value}")));
        }
        FlagPlace::Missing => append(edit, container, &[value]),
    }
}

/// Writes words behind all others.
pub(crate) fn append(edit: &mut Edit, container: Container<'_>, words: &[&str]) {
    let args = format!("{}/args", container.path());
    for word in words {
        edit.push(&args, Value::String((*word).to_owned()));
    }
}

fn is_false(value: &str) -> bool {
    matches!(value, "false" | "False" | "FALSE" | "f" | "F" | "0")
}

enum Inside {
    Nothing,
    Value { prefix: String, value: String },
}

// === impl Word ===

impl Word<'_> {
    fn path(&self) -> String {
        format!("/{}/{}", self.field, self.index)
    }

    fn matches(&self, names: &[&str]) -> Option<Inside> {
        let (name, value) = match self.text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (self.text.as_str(), None),
        };
        // Python's engines take `--tensor_parallel_size` as well.
        let plain = if name.starts_with("--") {
            name.replace('_', "-")
        } else {
            name.to_owned()
        };
        if names.contains(&plain.as_str()) {
            let Some(value) = value else {
                return Some(Inside::Nothing);
            };
            // As it was written, where that can still be told; `$(FLAG)` can't.
            let prefix = match self.raw.split_once('=') {
                Some((raw, _)) if raw == name => format!("{raw}="),
                _ => format!("{name}="),
            };
            return Some(Inside::Value {
                prefix,
                value: value.to_owned(),
            });
        }
        let short = names.iter().filter(|name| !name.starts_with("--"));
        let mut short = short.filter_map(|name| Some((name, self.text.strip_prefix(name)?)));
        short
            .find(|(_, rest)| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
            .map(|(name, rest)| Inside::Value {
                prefix: (*name).to_owned(),
                value: rest.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Pod;
    use serde_json::json;

    fn with_words<T>(args: &[&str], look: impl FnOnce(&[Word<'_>]) -> T) -> T {
        let pod = json!({"metadata": {}, "spec": {"containers": [{
            "name": "c",
            "command": ["run"],
            "args": args,
            "env": [{"name": "P", "value": "9"}, {"name": "S", "valueFrom": {}}],
        }]}});
        let pod = Pod::read(&pod).expect("a pod");
        let container = pod.container("c").expect("it");
        look(&words(container, &Variables::of(container)))
    }

    #[test]
    fn flags_are_found_however_they_are_written() {
        for (args, value, path, prefix) in [
            (vec!["--port", "8"], Some("8"), "/args/1", ""),
            (vec!["--port=8"], Some("8"), "/args/0", "--port="),
            (
                vec!["--port", "8", "--port=7"],
                Some("7"),
                "/args/2",
                "--port=",
            ),
            (vec!["--port=$(P)"], Some("9"), "/args/0", "--port="),
            (vec!["--port", "$(S)"], None, "/args/1", ""),
            (vec!["-p", "8"], Some("8"), "/args/1", ""),
            (vec!["-p8"], Some("8"), "/args/0", "-p"),
        ] {
            let found = with_words(&args, |words| flag(words, &["--port", "-p"]));
            let found = found.expect("a flag");
            assert_eq!(found.value.as_deref(), value, "{args:?}");
            let place = FlagPlace::Word {
                path: path.to_owned(),
                prefix: prefix.to_owned(),
            };
            assert_eq!(found.place, place, "{args:?}");
        }
        let missing = with_words(&["--port"], |words| flag(words, &["--port"]));
        assert_eq!(missing.expect("a flag").place, FlagPlace::Missing);
        for args in [vec!["--ports", "8"], vec!["-pp", "8"], vec!["port", "8"]] {
            assert!(with_words(&args, |words| flag(words, &["--port", "-p"])).is_none());
        }
    }

    #[test]
    fn a_switch_may_be_set_to_false() {
        for (args, on) in [
            (vec!["--secure"], Some(true)),
            (vec!["--secure=false"], Some(false)),
            (vec!["--secure=true"], Some(true)),
            (vec!["--other"], None),
        ] {
            assert_eq!(with_words(&args, |words| switch(words, &["--secure"])), on);
        }
    }

    #[test]
    fn other_ports_of_the_program_are_found() {
        let args = ["--master-port", "29501", "--rpc_port=5555", "--import", "1"];
        assert_eq!(with_words(&args, port_flags), [29501, 5555, 1]);
    }
}
