//! The rules that a schema's bounds can't say, each written twice, side by side: as CEL for the API
//! server, and as Rust for objects that come from files. The message is one and the same.
//!
//! A type takes a rule by its attribute (`validation = rules::X.rule()`), which puts it into the
//! schema; [`crate::validate()`] finds it there by its CEL text. So a rule binds in both worlds or in
//! none. That both texts mean the same is tested against a CEL interpreter over every bad object of
//! `tests/bad_objects.yaml`.

mod text;

use serde_json::Value;
use text::{is_cidr, is_header_name, is_json_path, is_label_key, is_label_value, is_object_name};

/// A rule on one value of an object.
pub(crate) struct Law {
    /// For the API server; `self` is the value.
    pub(crate) cel: &'static str,
    /// What to write instead.
    pub(crate) message: &'static str,
    /// The same in Rust. The value has been found to be of its type and within its bounds; null
    /// members are left out.
    pub(crate) holds: fn(&Value) -> bool,
}

/// Every rule, for [`crate::validate()`] to find them.
pub(crate) const ALL: &[&Law] = &[
    &OBJECT_NAME,
    &LABELS,
    &ONE_TARGET_PORT,
    &FIXED_LIMIT_GIVEN,
    &FIXED_LIMIT_NOT_EMPTY,
    &RESERVED_BELOW_SEATS,
    &CIDRS,
    &HEADER_SOURCE,
    &HEADER_NAME,
    &ONE_WAY_TO_POOLS,
    &SHARES_IN_ORDER,
    &AT_LEAST_EVERY,
    &BUCKET_PER,
    &QUEUE_TTL,
    &MATCH_NOT_EMPTY,
    &URL_PATH,
    &DISTINCT_HEADERS,
    &JSON_PATH,
];

// === impl Law ===

impl Law {
    pub(crate) fn rule(&self) -> kube::core::Rule {
        kube::core::Rule::new(self.cel).message(self.message)
    }
}

/// Whether a text can name an object.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= 253 && is_object_name(name)
}

fn has(value: &Value, field: &str) -> bool {
    value.get(field).is_some()
}

fn number(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_i64)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn text_of<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A duration between two bounds. The pattern stands in the rule and not in the schema, since the
/// API server's words for a pattern that doesn't match only help those who read patterns.
macro_rules! duration_law {
    ($name:ident, $least:literal, $most:literal) => {
        pub(crate) const $name: Law = Law {
            cel: concat!(
                "self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) >= duration('",
                $least,
                "') && duration(self) <= duration('",
                $most,
                "')"
            ),
            message: concat!(
                "must be a duration of ",
                $least,
                " to ",
                $most,
                ", written as whole numbers with h, m, s or ms, such as \"30s\" or \"1m30s\""
            ),
            holds: |value| {
                let bound = crate::parse_duration;
                bound(text(value))
                    .is_some_and(|d| bound($least) <= Some(d) && Some(d) <= bound($most))
            },
        };
    };
}

duration_law!(AT_LEAST_EVERY, "1s", "24h");
duration_law!(BUCKET_PER, "1s", "24h");
duration_law!(QUEUE_TTL, "10ms", "24h");

pub(crate) const OBJECT_NAME: Law = Law {
    cel: "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
    message: "must be the name of an object: lower-case letters, digits, '-' and '.', such as \"chat-prod\"",
    holds: |value| is_object_name(text(value)),
};

pub(crate) const LABELS: Law = Law {
    cel: r"self.all(k, k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self[k].matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$'))",
    message: "must hold labels as Kubernetes allows them, such as {\"app\": \"vllm\"}: keys and values of letters, digits, '-', '_' and '.', at most 63 characters, beginning and ending with a letter or digit",
    holds: |value| {
        value.as_object().is_none_or(|labels| {
            labels
                .iter()
                .all(|(key, value)| is_label_key(key) && is_label_value(text(value)))
        })
    },
};

pub(crate) const ONE_TARGET_PORT: Law = Law {
    cel: "self.size() == 1",
    message: "must have exactly 1 entry, the port on which the engine answers, such as [{\"number\": 8000}]; make a pool for each port",
    holds: |value| list(value).len() == 1,
};

pub(crate) const FIXED_LIMIT_GIVEN: Law = Law {
    cel: "self.mode != 'Fixed' || has(self.fixed)",
    message: "mode Fixed needs fixed: write fixed.maxRequests, fixed.maxTokens or both, or leave limiter out for no limit",
    holds: |value| text_of(value, "mode") != Some("Fixed") || has(value, "fixed"),
};

pub(crate) const FIXED_LIMIT_NOT_EMPTY: Law = Law {
    cel: "has(self.maxRequests) || has(self.maxTokens)",
    message: "needs at least one limit: write maxRequests, maxTokens or both, or leave limiter out for no limit",
    holds: |value| has(value, "maxRequests") || has(value, "maxTokens"),
};

pub(crate) const RESERVED_BELOW_SEATS: Law = Law {
    cel: "!has(self.reservedSeats) || self.reservedSeats < (has(self.seatCap) ? self.seatCap : (has(self.fixed) && has(self.fixed.maxRequests) ? self.fixed.maxRequests : 65536))",
    message: "reservedSeats must be below seatCap (or fixed.maxRequests where seatCap is unset), or no Batch request could start: lower reservedSeats or raise seatCap",
    holds: |value| {
        let seats = number(value, "seatCap")
            .or_else(|| number(value.get("fixed")?, "maxRequests"))
            .unwrap_or(65536);
        number(value, "reservedSeats").is_none_or(|reserved| reserved < seats)
    },
};

pub(crate) const CIDRS: Law = Law {
    cel: r"self.all(c, c.matches('^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])[.]){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])/(3[0-2]|[12]?[0-9])$') || c.matches('^[0-9a-fA-F:]*:[0-9a-fA-F:.]*/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$'))",
    message: "must hold CIDRs, such as \"10.0.0.0/8\" or \"fd00::/8\"; one address is \"10.1.2.3/32\"",
    holds: |value| list(value).iter().all(|cidr| is_cidr(text(cidr))),
};

pub(crate) const HEADER_SOURCE: Law = Law {
    cel: "(self.type == 'Header') == has(self.header)",
    message: "type Header needs header.name, such as {\"type\": \"Header\", \"header\": {\"name\": \"x-tenant\"}}; type APIKey takes no header",
    holds: |value| (text_of(value, "type") == Some("Header")) == has(value, "header"),
};

pub(crate) const HEADER_NAME: Law = Law {
    cel: r"self.matches('^[-A-Za-z0-9!#$%&*+.^_`|~]+$')",
    message: "must be the name of a header, such as \"x-tenant\": letters, digits and '-', no ':' and no spaces",
    holds: |value| is_header_name(text(value)),
};

pub(crate) const ONE_WAY_TO_POOLS: Law = Law {
    cel: "has(self.poolRefs) != has(self.poolSelector)",
    message: "must have exactly one of poolRefs (pools by name, such as [{\"name\": \"llama\"}]) and poolSelector (pools by label)",
    holds: |value| has(value, "poolRefs") != has(value, "poolSelector"),
};

pub(crate) const SHARES_IN_ORDER: Law = Law {
    cel: "!has(self.minShare) || !has(self.maxShare) || self.minShare <= self.maxShare",
    message: "minShare must not be above maxShare: lower minShare or raise maxShare",
    holds: |value| match (number(value, "minShare"), number(value, "maxShare")) {
        (Some(least), Some(most)) => least <= most,
        _ => true,
    },
};

pub(crate) const MATCH_NOT_EMPTY: Law = Law {
    cel: "has(self.path) || has(self.headers) || has(self.model) || has(self.tenant) || has(self.jsonField)",
    message: "needs at least one of path, headers, model, tenant and jsonField; a class for everything else is named in the pool's defaultClass",
    holds: |value| {
        ["path", "headers", "model", "tenant", "jsonField"]
            .iter()
            .any(|field| has(value, field))
    },
};

pub(crate) const URL_PATH: Law = Law {
    cel: "self.value.matches('^/[^?#]*$')",
    message: "value must begin with '/' and hold no '?' or '#', such as \"/v1/chat/completions\"; the query isn't compared",
    holds: |value| {
        text_of(value, "value")
            .is_some_and(|path| path.starts_with('/') && !path.contains(['?', '#']))
    },
};

pub(crate) const DISTINCT_HEADERS: Law = Law {
    cel: "self.all(a, self.exists_one(b, a.name.lowerAscii() == b.name.lowerAscii()))",
    message: "must not name a header twice (case doesn't count); write another match entry for another value",
    holds: |value| {
        let names = |entry: &Value| text_of(entry, "name").map(str::to_ascii_lowercase);
        let headers = list(value);
        headers
            .iter()
            .all(|a| headers.iter().filter(|b| names(a) == names(b)).count() == 1)
    },
};

pub(crate) const JSON_PATH: Law = Law {
    cel: "self.matches('^[-A-Za-z0-9_]+([.][-A-Za-z0-9_]+)*$')",
    message: "must be names of fields joined by dots, such as \"metadata.job\": letters, digits, '_' and '-'; list entries can't be named",
    holds: |value| is_json_path(text(value)),
};
