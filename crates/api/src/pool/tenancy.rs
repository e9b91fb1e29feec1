//! How the tenant of a request is found.

use crate::rules;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the tenant of a request is found.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Tenancy {
    /// Where the tenant's key is looked for, in this order; the first that is present counts.
    /// Default: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub sources: Option<Vec<TenantSource>>,
    /// Peers whose `x-fairtide-class` header and tenant headers are believed, as CIDRs: the
    /// addresses of your gateway. Default: nobody's; API keys work all the same.
    #[serde(
        default,
        rename = "trustedCIDRs",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 49)))]
    #[x_kube(
        validation = rules::CIDRS.rule(),
        merge_strategy = ListMerge::Set
    )]
    pub trusted_cidrs: Option<Vec<String>>,
    /// The tenant of requests without a key. Default: `anonymous`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub fallback_tenant: Option<String>,
    /// Tenants per class with a queue of their own; those beyond share one. Default: 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_tenants: Option<i32>,
}

/// One place where a tenant's key may be.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[x_kube(validation = rules::HEADER_SOURCE.rule())]
#[serde(rename_all = "camelCase")]
pub struct TenantSource {
    /// `Header`: the value of the header that `header` names, believed only from `trustedCIDRs`.
    /// `APIKey`: the bearer token of `Authorization`, or `x-api-key`; the tenant is a short hash of
    /// it, the key itself appears nowhere.
    #[serde(rename = "type")]
    pub type_: TenantSourceType,
    /// The header of type `Header`. Required for that type, and only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<HeaderSource>,
}

/// Kinds of places where a tenant's key may be.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantSourceType {
    /// A header's value.
    Header,
    /// The request's API key.
    #[serde(rename = "APIKey")]
    ApiKey,
}

/// A header by name.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HeaderSource {
    /// Name of the header; case doesn't count.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = rules::HEADER_NAME.rule())]
    pub name: String,
}
