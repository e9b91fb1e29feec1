//! The policy of a sidecar that has never been told one: one class, no limit. It serves for ever
//! like that if it must; the first policy that comes takes its place.

use fairtide_api::names::IMPLICIT_CLASS;
use fairtide_policy::{Class, Limiter, Mode, ObjectRef, Policy, Queue, Tenancy, Tier};

/// The wait that Interactive work is given by default, in milliseconds.
const TTL_MS: u64 = 10_000;

/// What is obeyed while nothing is known of the pool.
pub(crate) fn policy(namespace: &str, pool: &str) -> Policy {
    Policy {
        pool: ObjectRef {
            namespace: namespace.to_owned(),
            name: pool.to_owned(),
            generation: 0,
        },
        mode: Mode::Enforce,
        limiter: Limiter::default(),
        tenancy: Tenancy::default(),
        default_class: IMPLICIT_CLASS.to_owned(),
        classes: vec![Class {
            name: IMPLICIT_CLASS.to_owned(),
            generation: 0,
            tier: Tier::Interactive,
            priority: 100,
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
                ttl_ms: TTL_MS,
            },
            matches: Vec::new(),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bootstrap_policy_can_be_obeyed() {
        let settings = policy("ns", "pool").settings().expect("within its bounds");
        assert_eq!(settings.limit, Default::default());
    }
}
