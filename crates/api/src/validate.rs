//! What the API server would say to an object, for objects that come from files or from a cluster
//! with an older definition.
//!
//! The walk obeys the published schema itself, bounds and rules alike, and so can't drift from it.
//! All that is wrong is told at once, each with its path.

mod walk;

use crate::Kind;
use serde_json::Value;
use std::fmt;

pub use walk::suggestion;
pub(crate) use walk::{spec, unknown_field};

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub struct Violation {
    /// Where, such as `spec.match[0].headers`.
    pub path: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

/// Everything that is wrong with an object's spec; empty where it is valid.
pub fn validate<T: Kind>(object: &T) -> Vec<Violation> {
    match serde_json::to_value(object) {
        Ok(value) => spec(T::schema(), value.get("spec").unwrap_or(&Value::Null)),
        Err(error) => vec![Violation {
            path: "spec".to_owned(),
            message: error.to_string(),
        }],
    }
}

// === impl Violation ===

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}
