use super::*;
use crate::StringMatch::{Exact, Prefix};

fn class(name: &str, tier: Tier) -> Class {
    Class {
        name: name.to_owned(),
        generation: 1,
        tier,
        priority: 0,
        weight: 1,
        min_share: 0,
        max_share: None,
        at_least_every_ms: None,
        max_in_flight: None,
        bucket: None,
        queue: Queue {
            max_requests: None,
            max_tokens: None,
            max_bytes: None,
            per_tenant: None,
            ttl_ms: 10_000,
        },
        matches: Vec::new(),
    }
}

fn policy() -> Policy {
    Policy {
        pool: ObjectRef {
            namespace: "ai".to_owned(),
            name: "llama".to_owned(),
            generation: 3,
        },
        mode: Mode::Enforce,
        limiter: Limiter::default(),
        tenancy: Tenancy::default(),
        default_class: "chat".to_owned(),
        classes: vec![
            class("chat", Tier::Interactive),
            class("batch", Tier::Batch),
        ],
    }
}

#[test]
fn a_document_survives_its_journey() {
    let mut policy = policy();
    policy.tenancy.sources = vec![
        TenantSource::Header {
            name: "x-tenant".to_owned(),
        },
        TenantSource::ApiKey,
    ];
    policy.tenancy.trusted_cidrs = vec!["10.0.0.0/8".parse().unwrap()];
    let message = Message::Snapshot {
        v: PROTOCOL_VERSION,
        version: policy.version(),
        policy: Box::new(policy),
    };
    let line = serde_json::to_string(&message).unwrap();
    assert!(!line.contains('\n'));
    assert_eq!(serde_json::from_str::<Message>(&line).unwrap(), message);
}

#[test]
fn an_older_reader_ignores_what_it_does_not_know() {
    let mut json = serde_json::to_value(policy()).unwrap();
    json["somethingNew"] = serde_json::json!({"a": 1});
    json["classes"][0]["somethingNew"] = serde_json::json!(true);
    assert_eq!(serde_json::from_value::<Policy>(json).unwrap(), policy());
}

#[test]
fn a_missing_field_takes_its_default() {
    let json = r#"{"pool":{"namespace":"ai","name":"llama"},"defaultClass":"chat","classes":[
        {"name":"chat","tier":"Interactive","priority":100,"weight":1,"minShare":0,"queue":{"ttlMs":1000}}]}"#;
    let policy: Policy = serde_json::from_str(json).unwrap();
    assert_eq!(policy.mode, Mode::Enforce);
    assert_eq!(policy.tenancy.fallback_tenant, "anonymous");
    assert!(policy.settings().is_ok());
}

#[test]
fn the_version_follows_content_and_generations() {
    let version = policy().version();
    assert_eq!(version, policy().version());
    assert!(version.ends_with("-p3-c1-c1"), "{version}");
    let mut changed = policy();
    changed.classes[1].weight = 2;
    assert_ne!(version, changed.version());
    let mut touched = policy();
    touched.pool.generation = 4;
    assert_ne!(version, touched.version());
}

#[test]
fn what_cannot_be_obeyed_is_refused_with_the_reason() {
    type Change = fn(&mut Policy);
    let cases: [(Change, &str); 7] = [
        (
            |p| p.default_class = "gone".to_owned(),
            "defaultClass \"gone\" is not among the classes",
        ),
        (
            |p| p.classes[1].name = "chat".to_owned(),
            "class \"chat\" is there twice",
        ),
        (
            |p| p.classes[1].weight = 0,
            "class \"batch\": weight is 0, which is not 1 to 1000000",
        ),
        (
            |p| p.classes[1].queue.ttl_ms = 0,
            "class \"batch\": queue.ttlMs is 0, which is not at least 1",
        ),
        (
            |p| p.limiter.max_requests = Some(0),
            "limiter.maxRequests is 0, which would hold every request; leave it out for no limit",
        ),
        (
            |p| {
                p.classes[0].min_share = 50;
                p.classes[1].min_share = 41;
            },
            "the minShares add up to 91 %, which is above 90 %",
        ),
        (
            |p| p.classes[0].max_share = Some(101),
            "class \"chat\": maxShare is 101, which is not 1 to 100",
        ),
    ];
    for (change, message) in cases {
        let mut policy = policy();
        change(&mut policy);
        assert_eq!(policy.settings().unwrap_err().to_string(), message);
    }
}

#[test]
fn a_rate_is_counted_by_the_second() {
    let mut policy = policy();
    policy.classes[0].bucket = Some(Bucket {
        rate: 600,
        per_ms: 60_000,
        burst: 100,
        unit: BucketUnit::Requests,
    });
    let settings = policy.settings().unwrap();
    let bucket = settings.classes[0].bucket.unwrap();
    assert_eq!((bucket.rate, bucket.burst), (10.0, 100.0));
}

#[test]
fn matches_overlap_unless_a_condition_excludes_it() {
    let path = |value: StringMatch| Match {
        path: Some(value),
        ..Match::default()
    };
    let exact = |s: &str| path(Exact(s.to_owned()));
    let prefix = |s: &str| path(Prefix(s.to_owned()));
    assert!(!exact("/a").overlaps(&exact("/b")));
    assert!(exact("/a/b").overlaps(&prefix("/a")));
    assert!(!exact("/b").overlaps(&prefix("/a")));
    assert!(prefix("/a").overlaps(&prefix("/a/b")));
    assert!(!prefix("/a").overlaps(&prefix("/b")));

    let header = |name: &str, value: &str| Match {
        headers: vec![HeaderMatch {
            name: name.to_owned(),
            value: Exact(value.to_owned()),
        }],
        ..Match::default()
    };
    assert!(!header("x-team", "a").overlaps(&header("x-team", "b")));
    assert!(header("x-team", "a").overlaps(&header("x-job", "b")));
    assert!(header("x-team", "a").overlaps(&exact("/a")));

    let field = |path: &str, value: &str| Match {
        json_field: Some(JsonFieldMatch {
            path: path.to_owned(),
            value: Exact(value.to_owned()),
        }),
        ..Match::default()
    };
    assert!(!field("user", "a").overlaps(&field("user", "b")));
    assert!(field("user", "a").overlaps(&field("job", "b")));
}
