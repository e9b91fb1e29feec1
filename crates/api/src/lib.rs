//! The two kinds that users write, [`InferencePool`] and [`TrafficClass`], as Rust types, as
//! published schema, and as a checker for objects that come from files.
//!
//! No client is in here, so that whatever reads objects (operator, sidecar, command line) can
//! depend on it. The schema is the one source of all bounds: [`crds`] publishes it to the API
//! server, [`validate()`] and [`parse`] obey the very same value where there is no API server.

#![deny(missing_docs)]
// The derive's columns repeat their keys by design.
#![allow(clippy::duplicated_attributes)]

pub mod conditions;
pub mod names;

mod class;
mod duration;
mod kind;
mod parse;
mod pool;
mod published;
mod reference;
mod rules;
mod validate;

pub use class::{
    Bucket, BucketUnit, HeaderMatch, JsonFieldMatch, MatchType, Queue, StringMatch, Tier,
    TrafficClass, TrafficClassSpec, TrafficClassStatus, TrafficMatch,
};
pub use duration::parse_duration;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
pub use kind::Kind;
pub use parse::parse;
pub use pool::{
    FixedLimit, HeaderSource, InferencePool, InferencePoolSpec, InferencePoolStatus, Limiter,
    LimiterMode, Mode, PoolPods, TargetPort, Tenancy, TenantSource, TenantSourceType,
};
pub use published::crds;
pub use reference::{ClassReference, LabelSelector, PoolReference};
pub use validate::{Violation, suggestion, validate};
