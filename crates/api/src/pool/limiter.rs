//! How much may be in the engine at once.

use crate::rules;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much may be in the engine at once.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[x_kube(
    validation = rules::FIXED_LIMIT_GIVEN.rule(),
    validation = rules::RESERVED_BELOW_SEATS.rule()
)]
#[serde(rename_all = "camelCase")]
pub struct Limiter {
    /// `Fixed`: the limits are the numbers in `fixed`.
    pub mode: LimiterMode,
    /// The limits of mode `Fixed`. Required in that mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<FixedLimit>,
    /// Requests that the engine runs at once, per pod: vLLM's `--max-num-seqs`. Interactive
    /// headroom is kept in seats of this many. Default: `fixed.maxRequests`, else what the engine
    /// says of itself; while neither is known, no seat is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub seat_cap: Option<i32>,
    /// Seats that Batch work never takes, at the least. Fairtide keeps more of its own accord when
    /// interactive requests come that often. Must be below `seatCap`. Default: no floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub reserved_seats: Option<i32>,
}

/// Where the limit comes from.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimiterMode {
    /// From the object.
    Fixed,
}

/// Limits per pod, as written. At least one of the two.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = rules::FIXED_LIMIT_NOT_EMPTY.rule())]
#[serde(rename_all = "camelCase")]
pub struct FixedLimit {
    /// Requests in the engine, per pod. Default: not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub max_requests: Option<i32>,
    /// Context tokens in the engine, prompt and generated, per pod. One request is admitted to an
    /// empty engine whatever its size. Default: not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_000i64))]
    pub max_tokens: Option<i64>,
}
