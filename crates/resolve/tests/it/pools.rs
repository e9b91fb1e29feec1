//! Pools: defaults, references, and objects that make no sense.

use crate::scene::{class, policy, pool, pool_in, resolved, said, served, warned};
use fairtide_policy::{BucketUnit, Mode, StringMatch, TenantSource, Tier};
use serde_json::json;

#[test]
fn a_pool_alone_serves_everything_in_the_implicit_class() {
    let resolved = resolved(&[pool("llama", 1, json!({}))], &[]);
    let policy = policy(&resolved, "llama");
    assert_eq!(policy.default_class, "_default");
    assert_eq!(policy.classes.len(), 1);
    let class = &policy.classes[0];
    assert_eq!(
        (class.tier, class.priority, class.weight, class.min_share),
        (Tier::Interactive, 100, 1, 0)
    );
    assert_eq!(policy.mode, Mode::Enforce);
    assert_eq!(policy.limiter.max_tokens, None);
    assert_eq!(policy.tenancy.fallback_tenant, "anonymous");
    assert_eq!(policy.tenancy.max_tenants, 1000);
    let pool = pool_in(&resolved, "llama");
    assert_eq!(pool.target_port, Some(8000));
    assert_eq!(said(pool.condition("Accepted")).0, "True");
    assert_eq!(said(pool.condition("ResolvedRefs")).0, "True");
}

#[test]
fn defaults_differ_by_tier() {
    let classes = [
        class("chat", 1, json!({})),
        class("night", 2, json!({ "tier": "Batch" })),
    ];
    let resolved = resolved(&[pool("llama", 1, json!({}))], &classes);
    let chat = served(&resolved, "chat");
    let night = served(&resolved, "night");
    assert_eq!(
        (chat.priority, chat.weight, chat.queue.ttl_ms),
        (100, 1, 10_000)
    );
    assert_eq!(
        (night.priority, night.weight, night.queue.ttl_ms),
        (0, 1, 50_000)
    );
    assert_eq!((chat.min_share, night.min_share), (0, 5));
    assert_eq!(chat.queue.max_requests, None);
    assert_eq!(chat.bucket, None);
}

#[test]
fn every_field_of_a_pool_reaches_the_policy() {
    let fields = json!({
        "mode": "Bypass",
        "limiter": { "mode": "Fixed", "fixed": { "maxRequests": 64, "maxTokens": 400_000 }, "seatCap": 32, "reservedSeats": 4 },
        "tenancy": {
            "sources": [{ "type": "Header", "header": { "name": "X-Tenant" } }, { "type": "APIKey" }],
            "trustedCIDRs": ["10.0.0.0/8"], "fallbackTenant": "nobody", "maxTenants": 7,
        },
        "targetPorts": [{ "number": 9000 }],
        "defaultClass": { "name": "chat" },
    });
    let resolved = resolved(&[pool("llama", 5, fields)], &[class("chat", 1, json!({}))]);
    let policy = policy(&resolved, "llama");
    assert_eq!(policy.mode, Mode::Bypass);
    assert_eq!(policy.limiter.max_requests, Some(64));
    assert_eq!(policy.limiter.max_tokens, Some(400_000));
    assert_eq!(policy.limiter.seat_cap, Some(32));
    assert_eq!(policy.limiter.reserved_seats, 4);
    let header = TenantSource::Header {
        name: "x-tenant".to_owned(),
    };
    assert_eq!(policy.tenancy.sources, [header, TenantSource::ApiKey]);
    assert_eq!(
        policy.tenancy.trusted_cidrs,
        ["10.0.0.0/8".parse().unwrap()]
    );
    assert_eq!(policy.tenancy.fallback_tenant, "nobody");
    assert_eq!(policy.tenancy.max_tenants, 7);
    assert_eq!(policy.default_class, "chat");
    assert_eq!(
        policy.classes.len(),
        1,
        "no implicit class beside a default class"
    );
    assert_eq!(policy.pool.generation, 5);
    assert_eq!(pool_in(&resolved, "llama").target_port, Some(9000));
    assert_eq!(warned(&resolved), []);
}

#[test]
fn every_field_of_a_class_reaches_the_policy() {
    let fields = json!({
        "tier": "Batch", "priority": 7, "weight": 3, "minShare": 11, "maxShare": 40,
        "atLeastEvery": "1m30s", "maxInFlight": 9,
        "match": [{
            "precedence": 4, "path": { "type": "Prefix", "value": "/v1/" },
            "headers": [{ "name": "X-Job", "value": "a" }], "model": { "value": "m" },
            "tenant": { "type": "Exact", "value": "t" },
            "jsonField": { "path": "a.b", "type": "Prefix", "value": "c" },
        }],
        "bucket": { "rate": 600, "unit": "Tokens" },
        "queue": { "maxRequests": 1, "maxTokens": 2, "maxBytes": 3, "perTenant": 4, "ttl": "5m" },
    });
    let resolved = resolved(&[pool("llama", 1, json!({}))], &[class("night", 8, fields)]);
    let night = served(&resolved, "night");
    assert_eq!((night.priority, night.weight, night.generation), (7, 3, 8));
    assert_eq!((night.min_share, night.max_share), (11, Some(40)));
    assert_eq!(
        (night.at_least_every_ms, night.max_in_flight),
        (Some(90_000), Some(9))
    );
    let bucket = night.bucket.unwrap();
    assert_eq!(
        (bucket.rate, bucket.per_ms, bucket.burst),
        (600, 60_000, 600)
    );
    assert_eq!(bucket.unit, BucketUnit::Tokens);
    let queue = night.queue;
    assert_eq!(
        (queue.max_requests, queue.max_tokens, queue.max_bytes),
        (Some(1), Some(2), Some(3))
    );
    assert_eq!((queue.per_tenant, queue.ttl_ms), (Some(4), 300_000));
    let entry = &night.matches[0];
    assert_eq!(entry.precedence, 4);
    assert_eq!(entry.path, Some(StringMatch::Prefix("/v1/".to_owned())));
    assert_eq!(entry.headers[0].name, "x-job");
    assert_eq!(entry.headers[0].value, StringMatch::Exact("a".to_owned()));
    assert_eq!(entry.model, Some(StringMatch::Exact("m".to_owned())));
    assert_eq!(entry.tenant, Some(StringMatch::Exact("t".to_owned())));
    let field = entry.json_field.as_ref().unwrap();
    assert_eq!(
        (field.path.as_str(), &field.value),
        ("a.b", &StringMatch::Prefix("c".to_owned()))
    );
}

#[test]
fn classes_come_in_order_of_age_then_name() {
    let classes = [
        class("young", 9, json!({})),
        class("b-twin", 3, json!({})),
        class("a-twin", 3, json!({})),
        class("old", 1, json!({})),
    ];
    let resolved = resolved(&[pool("llama", 1, json!({}))], &classes);
    let names: Vec<&str> = policy(&resolved, "llama")
        .classes
        .iter()
        .map(|c| c.name.as_str())
        .collect();
    assert_eq!(names, ["old", "a-twin", "b-twin", "young", "_default"]);
}

#[test]
fn what_has_no_age_counts_as_youngest() {
    let mut from_file = class("a-from-file", 1, json!({}));
    from_file.metadata.creation_timestamp = None;
    let resolved = resolved(
        &[pool("llama", 1, json!({}))],
        &[from_file, class("b-of-cluster", 9, json!({}))],
    );
    let first = &policy(&resolved, "llama").classes[0];
    assert_eq!(first.name, "b-of-cluster");
}

#[test]
fn a_default_class_that_does_not_exist_leaves_the_pool_serving() {
    let resolved = resolved(
        &[pool(
            "llama",
            1,
            json!({ "defaultClass": { "name": "chta" } }),
        )],
        &[],
    );
    let pool = pool_in(&resolved, "llama");
    assert_eq!(
        said(pool.condition("ResolvedRefs")),
        (
            "False",
            "ClassNotFound",
            "spec.defaultClass names TrafficClass \"chta\", which is not in namespace \"prod\": create it, or correct the name. Until then, requests that match no class go to the implicit class \"_default\"".to_owned()
        )
    );
    assert_eq!(said(pool.condition("Accepted")).0, "True");
    assert_eq!(pool.policy.as_ref().unwrap().default_class, "_default");
}

#[test]
fn a_default_class_that_serves_another_pool_is_told_where_to_be_added() {
    let other = class("chat", 1, json!({ "poolRefs": [{ "name": "qwen" }] }));
    let resolved = resolved(
        &[
            pool("llama", 1, json!({ "defaultClass": { "name": "chat" } })),
            pool("qwen", 2, json!({})),
        ],
        &[other],
    );
    let (status, reason, message) = said(pool_in(&resolved, "llama").condition("ResolvedRefs"));
    assert_eq!((status, reason), ("False", "ClassNotServing"));
    assert!(
        message.contains("add \"llama\" to its spec.poolRefs"),
        "{message}"
    );
    assert_eq!(policy(&resolved, "llama").default_class, "_default");
}

#[test]
fn a_default_class_that_is_invalid_is_told_apart_from_a_missing_one() {
    let resolved = resolved(
        &[pool(
            "llama",
            1,
            json!({ "defaultClass": { "name": "chat" } }),
        )],
        &[class("chat", 1, json!({ "weight": 0 }))],
    );
    assert_eq!(
        said(pool_in(&resolved, "llama").condition("ResolvedRefs")).1,
        "ClassInvalid"
    );
}

#[test]
fn an_invalid_pool_gets_no_policy_and_stops_nobody() {
    let resolved = resolved(
        &[
            pool("llama", 1, json!({ "targetPorts": [{ "number": 0 }] })),
            pool("qwen", 2, json!({})),
        ],
        &[class(
            "chat",
            1,
            json!({ "poolRefs": [{ "name": "llama" }, { "name": "qwen" }] }),
        )],
    );
    let llama = pool_in(&resolved, "llama");
    assert_eq!(llama.policy, None);
    assert_eq!(
        said(llama.condition("Accepted")),
        (
            "False",
            "Invalid",
            "spec.targetPorts[0].number: must be 1 to 65535, but is 0".to_owned()
        )
    );
    assert_eq!(said(llama.condition("ResolvedRefs")).0, "Unknown");
    assert!(policy(&resolved, "qwen").class("chat").is_some());
}

#[test]
fn an_address_that_the_patterns_let_pass_is_refused_all_the_same() {
    let tenancy = json!({ "tenancy": { "trustedCIDRs": ["10.0.0.0/8", "::::/64"] } });
    let resolved = resolved(&[pool("llama", 1, tenancy)], &[]);
    let (status, reason, message) = said(pool_in(&resolved, "llama").condition("Accepted"));
    assert_eq!((status, reason), ("False", "Invalid"));
    assert!(
        message.starts_with("spec.tenancy.trustedCIDRs[1]: \"::::/64\" is no CIDR"),
        "{message}"
    );
}

#[test]
fn a_tenant_header_that_nobody_may_set_is_warned_about() {
    let tenancy =
        json!({ "tenancy": { "sources": [{ "type": "Header", "header": { "name": "x-t" } }] } });
    let resolved = resolved(&[pool("llama", 1, tenancy)], &[]);
    assert_eq!(
        warned(&resolved),
        [("InferencePool prod/llama".to_owned(), "HeaderNotTrusted")]
    );
}
