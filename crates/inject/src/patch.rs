//! A JSON patch (RFC 6902), as data.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One operation. Paths are JSON pointers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// Puts a value where none is, or into a list.
    Add {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Changes a value.
    Replace {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Takes a value away.
    Remove {
        /// Where.
        path: String,
    },
    /// Fails the whole patch where the value is another one: somebody changed the pod meanwhile.
    Test {
        /// Where.
        path: String,
        /// What must be there.
        value: Value,
    },
}

/// Operations, in order. Serialises as the list that an API server takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Patch(pub Vec<Operation>);

/// A patch doesn't fit the document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the patch doesn't fit at {path}")]
pub struct PatchError {
    /// Where.
    pub path: String,
}

// === impl Operation ===

impl Operation {
    /// Where it works.
    pub fn path(&self) -> &str {
        match self {
            Self::Add { path, .. }
            | Self::Replace { path, .. }
            | Self::Remove { path }
            | Self::Test { path, .. } => path,
        }
    }
}

// === impl Patch ===

impl Patch {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies it: all of it, or nothing.
    ///
    /// # Errors
    /// A path that isn't there, or a test that fails. The document is unchanged then.
    pub fn apply(&self, document: &mut Value) -> Result<(), PatchError> {
        let mut changed = document.clone();
        for operation in &self.0 {
            apply(operation, &mut changed).ok_or_else(|| PatchError {
                path: operation.path().to_owned(),
            })?;
        }
        *document = changed;
        Ok(())
    }

    /// Applies it without keeping a copy; says whether it all fitted.
    pub(crate) fn apply_in_place(&self, document: &mut Value) -> bool {
        let mut operations = self.0.iter();
        operations.all(|operation| apply(operation, document).is_some())
    }
}

fn apply(operation: &Operation, document: &mut Value) -> Option<()> {
    match operation {
        Operation::Test { path, value } => (document.pointer(path)? == value).then_some(()),
        Operation::Replace { path, value } => {
            *document.pointer_mut(path)? = value.clone();
            Some(())
        }
        Operation::Add { path, value } => {
            let (parent, key) = split(path)?;
            match document.pointer_mut(parent)? {
                Value::Object(map) => {
                    map.insert(unescape(key), value.clone());
                }
                Value::Array(list) if key == "-" => list.push(value.clone()),
                Value::Array(list) => {
                    let index: usize = key.parse().ok()?;
                    if index > list.len() {
                        return None;
                    }
                    list.insert(index, value.clone());
                }
                _ => return None,
            }
            Some(())
        }
        Operation::Remove { path } => {
            let (parent, key) = split(path)?;
            match document.pointer_mut(parent)? {
                Value::Object(map) => map.remove(&unescape(key)).map(|_| ()),
                Value::Array(list) => {
                    let index: usize = key.parse().ok()?;
                    (index < list.len()).then(|| {
                        list.remove(index);
                    })
                }
                _ => None,
            }
        }
    }
}

fn split(path: &str) -> Option<(&str, &str)> {
    path.rsplit_once('/')
}

/// A key as a part of a pointer.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn unescape(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_is_the_list_that_api_servers_take() {
        let patch = Patch(vec![
            Operation::Test {
                path: "/a".to_owned(),
                value: json!(1),
            },
            Operation::Replace {
                path: "/a".to_owned(),
                value: json!(2),
            },
            Operation::Add {
                path: "/b/-".to_owned(),
                value: json!("x"),
            },
            Operation::Remove {
                path: "/c~1d".to_owned(),
            },
        ]);
        assert_eq!(
            serde_json::to_value(&patch).expect("data"),
            json!([
                {"op": "test", "path": "/a", "value": 1},
                {"op": "replace", "path": "/a", "value": 2},
                {"op": "add", "path": "/b/-", "value": "x"},
                {"op": "remove", "path": "/c~1d"},
            ])
        );
        let mut document = json!({"a": 1, "b": [], "c/d": true});
        patch.apply(&mut document).expect("fits");
        assert_eq!(document, json!({"a": 2, "b": ["x"]}));
    }

    #[test]
    fn a_patch_that_fails_changes_nothing() {
        let add = |path: &str| Operation::Add {
            path: path.to_owned(),
            value: json!(1),
        };
        for last in [
            Operation::Test {
                path: "/a".to_owned(),
                value: json!(2),
            },
            add("/list/4"),
            add("/a/x"),
            Operation::Remove {
                path: "/list/3".to_owned(),
            },
            Operation::Replace {
                path: "/none".to_owned(),
                value: json!(1),
            },
        ] {
            let mut document = json!({"a": 1, "list": [1, 2, 3]});
            let before = document.clone();
            let patch = Patch(vec![add("/new"), last.clone()]);
            assert!(patch.apply(&mut document).is_err(), "{last:?}");
            assert_eq!(document, before, "{last:?}");
        }
    }
}
