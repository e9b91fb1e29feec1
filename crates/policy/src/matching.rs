//! The conditions by which a class takes requests.

use serde::{Deserialize, Serialize};

/// One entry of a class's `match` list: all conditions that are set must hold. The entry with the
/// highest precedence decides; where that ties, the class that comes first in the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// Higher is tried first.
    #[serde(default)]
    pub precedence: i32,
    /// The request's path, without query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<StringMatch>,
    /// Headers; all must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderMatch>,
    /// The `model` of the JSON body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<StringMatch>,
    /// The tenant, as its source gives it: a header's value, or the hash of an API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<StringMatch>,
    /// A field of the JSON body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_field: Option<JsonFieldMatch>,
}

/// A condition on a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value")]
pub enum StringMatch {
    /// The whole string, to the letter.
    Exact(String),
    /// How it begins.
    Prefix(String),
}

/// A condition on a header. Names don't distinguish case; one of several values is enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderMatch {
    /// Name, in lower case.
    pub name: String,
    /// Condition on its value.
    pub value: StringMatch,
}

/// A condition on a field of the JSON body: strings by their text, numbers, `true` and `false` as
/// they are written. A field that is absent, or an object or a list, never matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JsonFieldMatch {
    /// Names from the top, joined by dots: `metadata.job`.
    pub path: String,
    /// Condition on its value.
    pub value: StringMatch,
}

// === impl StringMatch ===

impl StringMatch {
    /// Whether a string meets the condition.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            StringMatch::Exact(value) => text == value,
            StringMatch::Prefix(value) => text.starts_with(value.as_str()),
        }
    }

    /// Whether one string could meet both conditions.
    pub fn overlaps(&self, other: &StringMatch) -> bool {
        match (self, other) {
            (StringMatch::Exact(a), b @ StringMatch::Exact(_)) => b.matches(a),
            (StringMatch::Exact(a), b @ StringMatch::Prefix(_)) => b.matches(a),
            (a @ StringMatch::Prefix(_), StringMatch::Exact(b)) => a.matches(b),
            (StringMatch::Prefix(a), StringMatch::Prefix(b)) => {
                a.starts_with(b.as_str()) || b.starts_with(a.as_str())
            }
        }
    }
}

// === impl Match ===

impl Match {
    /// Whether one request could meet both. Headers of different names, and different JSON
    /// fields, don't exclude each other.
    pub fn overlaps(&self, other: &Match) -> bool {
        let both = |a: &Option<StringMatch>, b: &Option<StringMatch>| match (a, b) {
            (Some(a), Some(b)) => a.overlaps(b),
            _ => true,
        };
        both(&self.path, &other.path)
            && both(&self.model, &other.model)
            && both(&self.tenant, &other.tenant)
            && match (&self.json_field, &other.json_field) {
                (Some(a), Some(b)) => a.path != b.path || a.value.overlaps(&b.value),
                _ => true,
            }
            && self.headers.iter().all(|a| {
                other
                    .headers
                    .iter()
                    .all(|b| a.name != b.name || a.value.overlaps(&b.value))
            })
    }
}
