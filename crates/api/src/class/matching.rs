//! The conditions by which a class takes requests.

use crate::rules;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A set of conditions; all that are set must hold. At least one.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = rules::MATCH_NOT_EMPTY.rule())]
#[serde(rename_all = "camelCase")]
pub struct TrafficMatch {
    /// Decides between classes that match the same request: the higher is tried first, -1000 to
    /// 1000; where it ties, the older class. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1000, max = 1000))]
    pub precedence: Option<i32>,
    /// The request's path, without the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::URL_PATH.rule())]
    pub path: Option<StringMatch>,
    /// Headers of the request; all must match. Names must not repeat; case doesn't count in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(
        validation = rules::DISTINCT_HEADERS.rule(),
        merge_strategy = ListMerge::Atomic
    )]
    pub headers: Option<Vec<HeaderMatch>>,
    /// `model` of the JSON body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<StringMatch>,
    /// The request's tenant, as the pool's `tenancy` finds it: the header's value, or the short
    /// hash of the API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<StringMatch>,
    /// A field of the JSON body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_field: Option<JsonFieldMatch>,
}

/// How a text is compared.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchType {
    /// The whole text, to the letter.
    Exact,
    /// How it begins.
    Prefix,
}

/// A condition on a text.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StringMatch {
    /// `Exact`: the whole text. `Prefix`: how it begins. Default: `Exact`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MatchType")]
    pub type_: Option<MatchType>,
    /// The text, or its beginning.
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
}

/// A condition on a header. Where a header comes several times, one value that meets it is enough.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HeaderMatch {
    /// Name of the header; case doesn't count.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = rules::HEADER_NAME.rule())]
    pub name: String,
    /// `Exact`: the whole value. `Prefix`: how it begins. Default: `Exact`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MatchType")]
    pub type_: Option<MatchType>,
    /// The value, or its beginning.
    #[schemars(length(min = 1, max = 4096))]
    pub value: String,
}

/// A condition on a field of the JSON body. Numbers, `true` and `false` are compared as they are
/// written. A field that is absent, an object or a list never matches.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct JsonFieldMatch {
    /// Names of the fields from the top, joined by dots, such as `metadata.job`. Letters, digits,
    /// `_` and `-`.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = rules::JSON_PATH.rule())]
    pub path: String,
    /// `Exact`: the whole value. `Prefix`: how it begins. Default: `Exact`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MatchType")]
    pub type_: Option<MatchType>,
    /// The value, or its beginning.
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
}
