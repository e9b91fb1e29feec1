//! From the fields of an object to those of a policy, with every default filled in.

use super::{Checked, shares::Share};
use fairtide_api as api;
use fairtide_api::{TrafficClass, Violation, names, parse_duration};
use fairtide_policy as policy;
use std::time::Duration;

/// `priority` of an Interactive class that sets none.
const INTERACTIVE_PRIORITY: i32 = 100;
/// `priority` of a Batch class that sets none.
const BATCH_PRIORITY: i32 = 0;
/// `queue.ttl` of an Interactive class: longer than that nobody waits for a first token.
const INTERACTIVE_TTL: Duration = Duration::from_secs(10);
/// `queue.ttl` of a Batch class: below the 60 s at which load balancers cut.
const BATCH_TTL: Duration = Duration::from_secs(50);
/// `bucket.per`.
const BUCKET_PER: Duration = Duration::from_secs(60);

/// The class for requests that nothing else takes.
pub(super) fn implicit_class() -> policy::Class {
    policy::Class {
        name: names::IMPLICIT_CLASS.to_owned(),
        generation: 0,
        tier: policy::Tier::Interactive,
        priority: INTERACTIVE_PRIORITY,
        weight: 1,
        min_share: 0,
        max_share: None,
        at_least_every_ms: None,
        max_in_flight: None,
        bucket: None,
        queue: queue(None, INTERACTIVE_TTL),
        matches: Vec::new(),
    }
}

/// A class with its share of one pool.
pub(super) fn class(class: &Checked<'_, TrafficClass>, share: Share) -> policy::Class {
    let spec = &class.object.spec;
    let (tier, ttl) = match spec.tier {
        api::Tier::Interactive => (policy::Tier::Interactive, INTERACTIVE_TTL),
        api::Tier::Batch => (policy::Tier::Batch, BATCH_TTL),
    };
    policy::Class {
        name: class.key.name.clone(),
        generation: class.generation,
        tier,
        priority: priority(spec),
        weight: spec.weight.map_or(1, count),
        min_share: share.percent,
        max_share: spec
            .max_share
            .and_then(|percent| u8::try_from(percent).ok()),
        at_least_every_ms: spec.at_least_every.as_deref().map(|d| millis(d, ttl)),
        max_in_flight: spec.max_in_flight.map(count),
        bucket: spec.bucket.as_ref().map(bucket),
        queue: queue(spec.queue.as_ref(), ttl),
        matches: spec.matches.iter().flatten().map(matches).collect(),
    }
}

/// The priority of a class, its default filled in.
pub(super) fn priority(spec: &api::TrafficClassSpec) -> i32 {
    spec.priority.unwrap_or(match spec.tier {
        api::Tier::Interactive => INTERACTIVE_PRIORITY,
        api::Tier::Batch => BATCH_PRIORITY,
    })
}

/// The pool's mode.
pub(super) fn mode(mode: Option<api::Mode>) -> policy::Mode {
    match mode {
        None | Some(api::Mode::Enforce) => policy::Mode::Enforce,
        Some(api::Mode::Bypass) => policy::Mode::Bypass,
    }
}

/// The pool's limiter.
pub(super) fn limiter(limiter: Option<&api::Limiter>) -> policy::Limiter {
    let Some(limiter) = limiter else {
        return policy::Limiter::default();
    };
    let fixed = match limiter.mode {
        api::LimiterMode::Fixed => limiter.fixed.as_ref(),
    };
    policy::Limiter {
        seat_cap: limiter.seat_cap.map(count),
        reserved_seats: limiter.reserved_seats.map_or(0, count),
        max_requests: fixed.and_then(|fixed| fixed.max_requests).map(count),
        max_tokens: fixed.and_then(|fixed| fixed.max_tokens).map(units),
    }
}

/// The pool's tenancy.
pub(super) fn tenancy(tenancy: Option<&api::Tenancy>) -> policy::Tenancy {
    let default = policy::Tenancy::default();
    let Some(tenancy) = tenancy else {
        return default;
    };
    policy::Tenancy {
        sources: tenancy.sources.iter().flatten().map(source).collect(),
        trusted_cidrs: tenancy
            .trusted_cidrs
            .iter()
            .flatten()
            .filter_map(|cidr| cidr.parse().ok())
            .collect(),
        fallback_tenant: match &tenancy.fallback_tenant {
            Some(tenant) => tenant.clone(),
            None => default.fallback_tenant,
        },
        max_tenants: tenancy.max_tenants.map_or(default.max_tenants, count),
    }
}

/// CIDRs that the rules' patterns let pass and that are none all the same.
pub(super) fn unreadable_cidrs(spec: &api::InferencePoolSpec) -> Vec<Violation> {
    let cidrs = spec
        .tenancy
        .iter()
        .flat_map(|t| t.trusted_cidrs.iter().flatten());
    cidrs
        .enumerate()
        .filter(|(_, cidr)| cidr.parse::<ipnet::IpNet>().is_err())
        .map(|(index, cidr)| Violation {
            path: format!("spec.tenancy.trustedCIDRs[{index}]"),
            message: format!(
                "{cidr:?} is no CIDR; write one such as \"10.0.0.0/8\" or \"fd00::/8\""
            ),
        })
        .collect()
}

fn source(source: &api::TenantSource) -> policy::TenantSource {
    match (source.type_, &source.header) {
        (api::TenantSourceType::Header, Some(header)) => policy::TenantSource::Header {
            name: header.name.to_ascii_lowercase(),
        },
        // A Header source without header isn't valid and never gets here.
        _ => policy::TenantSource::ApiKey,
    }
}

fn bucket(bucket: &api::Bucket) -> policy::Bucket {
    policy::Bucket {
        rate: units(bucket.rate),
        per_ms: bucket
            .per
            .as_deref()
            .map_or_else(|| as_millis(BUCKET_PER), |d| millis(d, BUCKET_PER)),
        burst: units(bucket.burst.unwrap_or(bucket.rate)),
        unit: match bucket.unit {
            api::BucketUnit::Requests => policy::BucketUnit::Requests,
            api::BucketUnit::Tokens => policy::BucketUnit::Tokens,
        },
    }
}

fn queue(queue: Option<&api::Queue>, ttl: Duration) -> policy::Queue {
    policy::Queue {
        max_requests: queue.and_then(|q| q.max_requests).map(count),
        max_tokens: queue.and_then(|q| q.max_tokens).map(units),
        max_bytes: queue.and_then(|q| q.max_bytes).map(units),
        per_tenant: queue.and_then(|q| q.per_tenant).map(count),
        ttl_ms: queue
            .and_then(|q| q.ttl.as_deref())
            .map_or_else(|| as_millis(ttl), |d| millis(d, ttl)),
    }
}

fn matches(entry: &api::TrafficMatch) -> policy::Match {
    policy::Match {
        precedence: entry.precedence.unwrap_or(0),
        path: entry.path.as_ref().map(string),
        headers: entry
            .headers
            .iter()
            .flatten()
            .map(|header| policy::HeaderMatch {
                name: header.name.to_ascii_lowercase(),
                value: text(header.type_, &header.value),
            })
            .collect(),
        model: entry.model.as_ref().map(string),
        tenant: entry.tenant.as_ref().map(string),
        json_field: entry
            .json_field
            .as_ref()
            .map(|field| policy::JsonFieldMatch {
                path: field.path.clone(),
                value: text(field.type_, &field.value),
            }),
    }
}

fn string(condition: &api::StringMatch) -> policy::StringMatch {
    text(condition.type_, &condition.value)
}

fn text(type_: Option<api::MatchType>, value: &str) -> policy::StringMatch {
    match type_ {
        None | Some(api::MatchType::Exact) => policy::StringMatch::Exact(value.to_owned()),
        Some(api::MatchType::Prefix) => policy::StringMatch::Prefix(value.to_owned()),
    }
}

/// Numbers and durations of a valid object are within their bounds, so what these fall back to is
/// never seen.
fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn units(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn millis(text: &str, fallback: Duration) -> u64 {
    as_millis(parse_duration(text).unwrap_or(fallback))
}

fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
