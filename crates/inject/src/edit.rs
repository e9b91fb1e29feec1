//! Changes a pod and writes down each change as a patch operation.
//!
//! Nothing is written for what is already as wanted, so a second injection gives an empty patch.
//! Each value that is replaced or removed is tested first: when somebody else changed it
//! meanwhile, the patch fails loudly and doesn't hit the wrong element of a list.

use crate::patch::{Operation, Patch, escape};
use serde_json::{Map, Value};

/// A pod under change.
#[derive(Debug)]
pub(crate) struct Edit {
    document: Value,
    operations: Vec<Operation>,
}

// === impl Edit ===

impl Edit {
    /// Starts with a copy of what injection may touch: the bookkeeping of field managers alone
    /// can be a megabyte.
    pub(crate) fn of(pod: &Value) -> Self {
        let mut document = Map::new();
        if let Some(Value::Object(metadata)) = pod.get("metadata") {
            let touched = metadata
                .iter()
                .filter(|(key, _)| key.as_str() != "managedFields");
            let touched = touched.map(|(key, value)| (key.clone(), value.clone()));
            document.insert("metadata".to_owned(), Value::Object(touched.collect()));
        }
        if let Some(spec) = pod.get("spec") {
            document.insert("spec".to_owned(), spec.clone());
        }
        Self {
            document: Value::Object(document),
            operations: Vec::new(),
        }
    }

    /// What stands at a place now; null counts as nothing.
    pub(crate) fn get(&self, path: &str) -> Option<&Value> {
        self.document.pointer(path).filter(|value| !value.is_null())
    }

    /// Sets a value; its parent must be there.
    pub(crate) fn set(&mut self, path: &str, value: Value) {
        match self.document.pointer(path) {
            Some(there) if *there == value => {}
            Some(there) if !there.is_null() => {
                let there = there.clone();
                self.push_operation(Operation::Test {
                    path: path.to_owned(),
                    value: there,
                });
                self.push_operation(Operation::Replace {
                    path: path.to_owned(),
                    value,
                });
            }
            _ => self.push_operation(Operation::Add {
                path: path.to_owned(),
                value,
            }),
        }
    }

    /// Sets a key of a map, and makes the map if there is none.
    pub(crate) fn set_key(&mut self, map: &str, key: &str, value: Value) {
        if self.get(map).is_some() {
            self.set(&format!("{map}/{}", escape(key)), value);
        } else {
            let made = Map::from_iter([(key.to_owned(), value)]);
            self.set(map, Value::Object(made));
        }
    }

    /// Appends to a list, and makes the list if there is none.
    pub(crate) fn push(&mut self, list: &str, value: Value) {
        if self.get(list).is_some() {
            self.push_operation(Operation::Add {
                path: format!("{list}/-"),
                value,
            });
        } else {
            self.set(list, Value::Array(vec![value]));
        }
    }

    /// Removes a value, if it is there.
    pub(crate) fn remove(&mut self, path: &str) {
        if let Some(there) = self.document.pointer(path) {
            let there = there.clone();
            self.push_operation(Operation::Test {
                path: path.to_owned(),
                value: there,
            });
            self.push_operation(Operation::Remove {
                path: path.to_owned(),
            });
        }
    }

    /// Everything that was done.
    pub(crate) fn into_patch(self) -> Patch {
        Patch(self.operations)
    }

    fn push_operation(&mut self, operation: Operation) {
        let one = Patch(vec![operation]);
        // The shape of the pod was checked before, so each path has its parent; were it otherwise,
        // writing the operation down would only make the API server refuse the whole patch.
        if one.apply_in_place(&mut self.document) {
            self.operations.extend(one.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_as_wanted_leaves_no_trace() {
        let pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}});
        let mut edit = Edit::of(&pod);
        edit.set("/spec/x", json!(1));
        edit.set_key("/metadata/labels", "a", json!("b"));
        edit.remove("/spec/none");
        assert!(edit.into_patch().is_empty());
    }

    #[test]
    fn the_patch_turns_the_pod_into_what_was_edited() {
        let pod = json!({
            "metadata": {"managedFields": [1]},
            "spec": {"args": ["a", "b"], "none": null, "list": [1, 2]},
        });
        let mut edit = Edit::of(&pod);
        edit.set_key("/metadata/labels", "x/y", json!("1"));
        edit.set_key("/metadata/labels", "z", json!("2"));
        edit.set("/spec/args/1", json!("c"));
        edit.push("/spec/none", json!("first"));
        edit.push("/spec/none", json!("second"));
        edit.remove("/spec/list/0");
        let patch = edit.into_patch();
        let mut patched = pod;
        patch.apply(&mut patched).expect("fits");
        assert_eq!(
            patched,
            json!({
                "metadata": {"managedFields": [1], "labels": {"x/y": "1", "z": "2"}},
                "spec": {"args": ["a", "c"], "none": ["first", "second"], "list": [2]},
            })
        );
    }
}
