//! Which class a request belongs to: the match with the highest precedence decides; where that
//! ties, the class that comes first in the policy; where none matches, the default class. A
//! trusted peer may name the class in `x-fairtide-class`: a gateway knows more than a pod.

use crate::tenant::Tenant;
use fairtide_api::names::CLASS_HEADER;
use fairtide_engine::JsonBody;
use fairtide_policy::{Match, Policy};
use http::request::Parts;
use std::{borrow::Cow, sync::Arc};

/// The matches of a policy, in the order in which they are tried.
#[derive(Debug)]
pub(crate) struct Classifier {
    rules: Vec<(Match, Arc<str>)>,
    names: Vec<Arc<str>>,
    default_class: Arc<str>,
}

/// What of a request can be matched. Without a body only conditions on path, headers and tenant
/// can hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) tenant: &'a Tenant,
    pub(crate) trusted: bool,
    pub(crate) body: Option<&'a JsonBody<'a>>,
}

// === impl Classifier ===

impl Classifier {
    pub(crate) fn new(policy: &Policy) -> Self {
        let mut rules = Vec::new();
        let mut names = Vec::new();
        for class in &policy.classes {
            let name: Arc<str> = class.name.as_str().into();
            rules.extend(class.matches.iter().cloned().map(|m| (m, name.clone())));
            names.push(name);
        }
        // Stable: the policy's order holds where precedence ties.
        rules.sort_by_key(|(rule, _)| std::cmp::Reverse(rule.precedence));
        Self {
            rules,
            names,
            default_class: policy.default_class.as_str().into(),
        }
    }

    /// The class of a request.
    pub(crate) fn class(&self, request: Traits<'_>) -> Arc<str> {
        if request.trusted
            && let Some(named) = request.parts.headers.get(CLASS_HEADER)
            && let Some(class) = self.names.iter().find(|name| name.as_bytes() == named)
        {
            return class.clone();
        }
        let model = request.body.and_then(JsonBody::model);
        let mut rules = self.rules.iter();
        let found = rules.find(|(rule, _)| request.meets(rule, model.as_ref()));
        found
            .map_or(&self.default_class, |(_, class)| class)
            .clone()
    }
}

// === impl Traits ===

impl Traits<'_> {
    fn meets(&self, rule: &Match, model: Option<&Cow<'_, str>>) -> bool {
        let path = self.parts.uri.path();
        rule.path.as_ref().is_none_or(|wanted| wanted.matches(path))
            && rule.headers.iter().all(|header| {
                let values = self.parts.headers.get_all(&header.name);
                let mut texts = values.iter().filter_map(|value| value.to_str().ok());
                texts.any(|text| header.value.matches(text))
            })
            && rule
                .model
                .as_ref()
                .is_none_or(|wanted| model.is_some_and(|model| wanted.matches(model)))
            && rule
                .tenant
                .as_ref()
                .is_none_or(|wanted| wanted.matches(&self.tenant.key))
            && rule.json_field.as_ref().is_none_or(|field| {
                let text = self.body.and_then(|body| body.text(&field.path));
                text.is_some_and(|text| field.value.matches(&text))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairtide_policy::{HeaderMatch, JsonFieldMatch, StringMatch};

    fn exact(text: &str) -> Option<StringMatch> {
        Some(StringMatch::Exact(text.to_owned()))
    }

    fn policy(rules: &[(&str, Match)]) -> Policy {
        let mut policy = crate::bootstrap::policy("default", "pool");
        let template = policy.classes[0].clone();
        for (name, rule) in rules {
            let mut class = template.clone();
            class.name = (*name).to_owned();
            class.matches = vec![rule.clone()];
            policy.classes.push(class);
        }
        policy
    }

    fn class(policy: &Policy, trusted: bool, headers: &[(&str, &str)], body: &str) -> String {
        let mut request = http::Request::post("/v1/chat/completions?x=1");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        let tenant = Tenant {
            key: "team".into(),
            shown: "hash".into(),
        };
        let body = JsonBody::parse(body.as_bytes());
        let traits = Traits {
            parts: &parts,
            tenant: &tenant,
            trusted,
            body: body.as_ref(),
        };
        Classifier::new(policy).class(traits).to_string()
    }

    #[test]
    fn precedence_decides_and_then_the_order_of_the_policy() {
        let rule = |precedence| Match {
            precedence,
            model: exact("m"),
            ..Match::default()
        };
        let rules = [("a", rule(1)), ("b", rule(5)), ("c", rule(5))];
        assert_eq!(class(&policy(&rules), false, &[], r#"{"model":"m"}"#), "b");
        assert_eq!(
            class(&policy(&rules), false, &[], r#"{"model":"x"}"#),
            "_default"
        );
        assert_eq!(class(&policy(&rules), false, &[], "no json"), "_default");
    }

    #[test]
    fn all_conditions_of_an_entry_must_hold() {
        let rule = Match {
            path: exact("/v1/chat/completions"),
            headers: vec![HeaderMatch {
                name: "x-kind".to_owned(),
                value: StringMatch::Prefix("night".to_owned()),
            }],
            tenant: exact("team"),
            json_field: Some(JsonFieldMatch {
                path: "metadata.job".to_owned(),
                value: StringMatch::Exact("7".to_owned()),
            }),
            ..Match::default()
        };
        let policy = policy(&[("night", rule)]);
        let body = r#"{"metadata":{"job":7}}"#;
        assert_eq!(
            class(&policy, false, &[("X-Kind", "nightly")], body),
            "night"
        );
        let twice = [("x-kind", "day"), ("x-kind", "nightly")];
        assert_eq!(class(&policy, false, &twice, body), "night");
        assert_eq!(
            class(&policy, false, &[("x-kind", "day")], body),
            "_default"
        );
        assert_eq!(
            class(&policy, false, &[("x-kind", "nightly")], "{}"),
            "_default"
        );
    }

    #[test]
    fn only_a_trusted_peer_names_the_class() {
        let policy = policy(&[(
            "batch",
            Match {
                model: exact("m"),
                ..Match::default()
            },
        )]);
        let named = [(CLASS_HEADER, "batch")];
        assert_eq!(class(&policy, true, &named, ""), "batch");
        assert_eq!(class(&policy, false, &named, ""), "_default");
        assert_eq!(
            class(&policy, true, &[(CLASS_HEADER, "gone")], ""),
            "_default"
        );
    }
}
