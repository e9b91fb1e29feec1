//! Kubernetes' `$(NAME)` references in commands, arguments and variables.

use crate::pod::Container;
use serde_json::Value;
use std::{borrow::Cow, collections::HashMap};

/// The variables of a container whose values stand in the pod itself.
#[derive(Debug, Default)]
pub(crate) struct Variables<'a> {
    known: HashMap<&'a str, Variable<'a>>,
}

/// One variable.
#[derive(Clone, Debug)]
pub(crate) struct Variable<'a> {
    /// Its place in the list.
    pub(crate) index: usize,
    /// Its value; `None`: it comes from elsewhere.
    pub(crate) value: Option<Cow<'a, str>>,
}

// === impl Variables ===

impl<'a> Variables<'a> {
    pub(crate) fn of(container: Container<'a>) -> Self {
        let mut variables = Self::default();
        for (index, entry) in container.array("env").enumerate() {
            let Some(name) = entry.get("name").and_then(Value::as_str) else {
                continue;
            };
            let from_elsewhere = entry.get("valueFrom").is_some_and(|from| !from.is_null());
            let value = entry.get("value").and_then(Value::as_str).unwrap_or("");
            let value = match variables.expand(value) {
                (value, true) if !from_elsewhere => Some(value),
                _ => None,
            };
            // The last of a name wins.
            variables.known.insert(name, Variable { index, value });
        }
        variables
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Variable<'a>> {
        self.known.get(name)
    }

    /// The names of the variables with a value, in no order.
    pub(crate) fn with_value(&self, value: &str) -> impl Iterator<Item = &'a str> {
        let known = self.known.iter();
        let known = known.filter(move |(_, variable)| variable.value.as_deref() == Some(value));
        known.map(|(name, _)| *name)
    }

    /// The text with its references filled in, and whether all of them were known.
    pub(crate) fn expand<'t>(&self, text: &'t str) -> (Cow<'t, str>, bool) {
        if !text.contains('$') {
            return (Cow::Borrowed(text), true);
        }
        let mut expanded = String::with_capacity(text.len());
        let mut complete = true;
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            expanded.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(after) = after.strip_prefix('$') {
                expanded.push('$');
                rest = after;
            } else if let Some((name, after)) = after
                .strip_prefix('(')
                .and_then(|from| from.split_once(')'))
            {
                match self.known.get(name).and_then(|it| it.value.as_ref()) {
                    Some(value) => expanded.push_str(value),
                    None => {
                        complete = false;
                        expanded.push_str(&rest[at..rest.len() - after.len()]);
                    }
                }
                rest = after;
            } else {
                expanded.push('$');
                rest = after;
            }
        }
        expanded.push_str(rest);
        (Cow::Owned(expanded), complete)
    }
}

/// A text that comes through the expansion unchanged.
pub(crate) fn protect(text: &str) -> String {
    text.replace('$', "$$")
}

/// Undoes [`protect`].
pub(crate) fn unprotect(text: &str) -> String {
    Variables::default().expand(text).0.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Pod;
    use serde_json::json;

    #[test]
    fn references_are_filled_in_as_the_kubelet_does() {
        let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "env": [
            {"name": "PORT", "value": "8000"},
            {"name": "FLAG", "value": "--port=$(PORT)"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {}}},
            {"name": "EMPTY"},
        ]}]}});
        let pod = Pod::read(&pod).expect("a pod");
        let variables = Variables::of(pod.container("c").expect("it"));
        for (text, expanded, complete) in [
            ("$(PORT)", "8000", true),
            ("$(FLAG)x", "--port=8000x", true),
            ("$$(PORT)", "$(PORT)", true),
            ("$(SECRET)", "$(SECRET)", false),
            ("$(NONE)-$(PORT)", "$(NONE)-8000", false),
            ("$(EMPTY)", "", true),
            ("$PORT ${PORT} $(PORT", "$PORT ${PORT} $(PORT", true),
            ("$", "$", true),
        ] {
            assert_eq!(variables.expand(text), (expanded.into(), complete));
        }
    }

    #[test]
    fn a_protected_text_stays_what_it_is() {
        for text in ["$(POD)", "$$", "a$b", "$", "$$(X)"] {
            assert_eq!(unprotect(&protect(text)), text);
        }
    }
}
