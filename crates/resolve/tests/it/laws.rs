//! What holds for any objects, sound or not.

use fairtide_api::{InferencePool, TrafficClass, validate};
use fairtide_resolve::{Finding, Resolved, resolve};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

/// Mostly what is asked for, now and then something else.
fn mostly(usual: impl Strategy<Value = Value>, odd: Value) -> impl Strategy<Value = Value> {
    prop_oneof![40 => usual, 1 => Just(odd)]
}

fn maybe(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop_oneof![Just(Value::Null), value]
}

fn number(least: i64, most: i64) -> impl Strategy<Value = Value> {
    mostly((least..=most).prop_map(|n| json!(n)), json!(-1001))
}

fn one_of(words: &'static [&'static str], odd: &str) -> impl Strategy<Value = Value> {
    mostly(select(words).prop_map(|word| json!(word)), json!(odd))
}

fn name() -> impl Strategy<Value = Value> {
    one_of(&["a", "b", "c"], "Bad_Name")
}

fn duration() -> impl Strategy<Value = Value> {
    one_of(&["1s", "1m30s", "24h"], "0s")
}

fn condition() -> impl Strategy<Value = Value> {
    let type_ = maybe(one_of(&["Exact", "Prefix"], "Exact"));
    (type_, one_of(&["/", "/v1", "/v1/chat"], "x?y"))
        .prop_map(|(type_, value)| json!({ "type": type_, "value": value }))
}

fn entry() -> impl Strategy<Value = Value> {
    (maybe(number(-2, 2)), condition(), maybe(condition()), maybe(condition())).prop_map(
        |(precedence, path, model, tenant)| {
            json!({ "precedence": precedence, "path": path, "model": model, "tenant": tenant })
        },
    )
}

fn class() -> impl Strategy<Value = (u8, Value)> {
    let refs = vec(name().prop_map(|name| json!({ "name": name })), 1..3);
    let selector = name().prop_map(|name| json!({ "matchLabels": { "l": name } }));
    let pools = prop_oneof![
        20 => refs.prop_map(|refs| (json!(refs), Value::Null)),
        20 => selector.prop_map(|selector| (Value::Null, selector)),
        1 => Just((Value::Null, Value::Null)),
    ];
    let spec = (
        (pools, any::<bool>()),
        (maybe(number(-5, 5)), maybe(number(1, 9))),
        (
            maybe(number(0, 60)),
            maybe(number(60, 100)),
            maybe(duration()),
        ),
        maybe(vec(entry(), 1..3).prop_map(Value::from)),
        maybe(
            (number(1, 9), maybe(duration()))
                .prop_map(|(rate, per)| json!({ "rate": rate, "unit": "Tokens", "per": per })),
        ),
        maybe(
            (maybe(number(1, 9)), maybe(duration()))
                .prop_map(|(most, ttl)| json!({ "maxRequests": most, "ttl": ttl })),
        ),
    );
    let fields =
        |((pools, batch), (priority, weight), (least, most, every), matches, bucket, queue)| {
            let (refs, selector): (Value, Value) = pools;
            let tier = if batch { "Batch" } else { "Interactive" };
            json!({
                "poolRefs": refs, "poolSelector": selector, "tier": tier, "priority": priority,
                "weight": weight, "minShare": least, "maxShare": most, "atLeastEvery": every,
                "match": matches, "bucket": bucket, "queue": queue,
            })
        };
    (0..4u8, spec.prop_map(fields))
}

fn pool() -> impl Strategy<Value = (u8, Value)> {
    let limiter = (
        maybe(number(9, 64)),
        number(1, 9999),
        maybe(number(9, 64)),
        maybe(number(0, 9)),
    );
    let spec = (
        maybe(limiter.prop_map(|(requests, tokens, seats, reserved)| {
            json!({
                "mode": "Fixed", "fixed": { "maxRequests": requests, "maxTokens": tokens },
                "seatCap": seats, "reservedSeats": reserved,
            })
        })),
        maybe(name().prop_map(|name| json!({ "name": name }))),
        mostly(
            (1..9000i32).prop_map(|port| json!([{ "number": port }])),
            json!([]),
        ),
        maybe(
            mostly(one_of(&["10.0.0.0/8", "fd00::/8"], "::::/64"), json!("x"))
                .prop_map(|cidr| json!({ "trustedCIDRs": [cidr] })),
        ),
    );
    (0..4u8, spec).prop_map(|(age, (limiter, default, ports, tenancy))| {
        (
            age,
            json!({
                "selector": { "matchLabels": { "app": "vllm" } }, "targetPorts": ports,
                "limiter": limiter, "defaultClass": default, "tenancy": tenancy,
            }),
        )
    })
}

fn objects<T: serde::de::DeserializeOwned>(kind: &str, specs: Vec<(u8, Value)>) -> Vec<T> {
    specs
        .into_iter()
        .enumerate()
        .filter_map(|(index, (age, spec))| {
            let created = match age {
                0 => Value::Null,
                age => json!(format!("2026-01-01T00:00:{age:02}Z")),
            };
            let label = ["a", "b", "c"][index % 3];
            let name = ["h", "g", "f", "e", "d", "c", "b", "a"][index];
            // A spec that doesn't even type never reaches resolve().
            serde_json::from_value(json!({
                "apiVersion": "traffic.fairtide.dev/v1alpha1", "kind": kind, "spec": spec,
                "metadata": {
                    "name": name, "namespace": "prod",
                    "labels": { "l": label }, "creationTimestamp": created,
                },
            }))
            .ok()
        })
        .collect()
}

fn is_valid(pool: &InferencePool) -> bool {
    let cidrs = pool
        .spec
        .tenancy
        .iter()
        .flat_map(|t| t.trusted_cidrs.iter().flatten());
    validate(pool).is_empty() && !cidrs.into_iter().any(|cidr| cidr == "::::/64")
}

fn all_findings(resolved: &Resolved) -> impl Iterator<Item = &Finding> {
    let pools = resolved.pools.iter().flat_map(|pool| &pool.conditions);
    let classes = resolved.classes.iter().flat_map(|class| &class.conditions);
    pools.chain(classes)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_objects_give_policies_that_can_be_obeyed(
        pools in vec(pool(), 0..5),
        classes in vec(class(), 0..8),
        turn in 0..8usize,
    ) {
        let pools: Vec<InferencePool> = objects("InferencePool", pools);
        let classes: Vec<TrafficClass> = objects("TrafficClass", classes);
        let resolved = resolve(&pools, &classes);

        prop_assert_eq!(resolved.pools.len(), pools.len());
        prop_assert_eq!(resolved.classes.len(), classes.len());
        for pool in &resolved.pools {
            let accepted = pool.condition("Accepted").unwrap().status.as_str();
            prop_assert_eq!(pool.policy.is_some(), accepted == "True");
            // Classes never cost a pool its policy.
            let object = pools.iter().find(|p| p.metadata.name.as_ref() == Some(&pool.key.name));
            prop_assert_eq!(pool.policy.is_some(), is_valid(object.unwrap()));
            prop_assert_eq!(pool.target_port.is_some(), pool.policy.is_some());
            if let Some(policy) = &pool.policy {
                prop_assert!(policy.settings().is_ok(), "{:?}", policy.settings());
                let promised: u32 = policy.classes.iter().map(|c| u32::from(c.min_share)).sum();
                prop_assert!(promised <= 90, "{promised} % promised");
                prop_assert!(policy.class(&policy.default_class).is_some());
            }
        }
        // A class is in the policies of just the pools that it is said to serve.
        for class in &resolved.classes {
            for pool in &resolved.pools {
                let serves = pool.policy.as_ref().is_some_and(|p| p.class(&class.key.name).is_some());
                prop_assert_eq!(serves, class.pools.contains(&pool.key));
            }
        }
        for finding in all_findings(&resolved) {
            prop_assert!(!finding.message.is_empty() && finding.message.len() < 32768);
        }

        // The order of objects changes nothing, and saying it twice neither.
        let (mut other_pools, mut other_classes) = (pools.clone(), classes.clone());
        other_pools.reverse();
        let turn = turn % other_classes.len().max(1);
        other_classes.rotate_left(turn);
        prop_assert_eq!(&resolved, &resolve(&other_pools, &other_classes));
    }

    /// What was promised to the older ones is not touched by a younger one.
    #[test]
    fn a_new_class_takes_no_promise_from_an_old_one(
        classes in vec(class(), 0..6),
        newest in class(),
    ) {
        let pools: Vec<InferencePool> = objects(
            "InferencePool",
            vec![(1, json!({ "selector": { "matchLabels": { "app": "vllm" } }, "targetPorts": [{ "number": 1 }] }))],
        );
        let mut classes: Vec<(u8, Value)> = classes;
        for (age, _) in &mut classes {
            *age = 1;
        }
        let before: Vec<TrafficClass> = objects("TrafficClass", classes.clone());
        classes.push((2, newest.1));
        let after: Vec<TrafficClass> = objects("TrafficClass", classes);
        let (before_, after_) = (resolve(&pools, &before), resolve(&pools, &after));
        let (Some(old), Some(new)) = (&before_.pools[0].policy, &after_.pools[0].policy) else {
            return Ok(());
        };
        for object in before.iter().filter(|class| class.spec.min_share.is_some()) {
            let name = object.metadata.name.as_deref().unwrap();
            let share = |policy: &fairtide_policy::Policy| policy.class(name).map(|class| class.min_share);
            prop_assert_eq!(share(old), share(new), "{}", name);
        }
    }
}
