//! What load to offer: classes of requests, who sends them, how long they are, when they arrive.
//!
//! The format is documented in `docs/load-scenarios.md`; the two built-in scenarios are files of
//! that format.

use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Deserializer, de};
use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

const BUILT_IN: &[(&str, &str)] = &[
    ("demo", include_str!("../../scenarios/demo.yaml")),
    ("burst", include_str!("../../scenarios/burst.yaml")),
];

/// A load to offer.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Its name, which the report carries.
    pub name: String,
    /// What the load is, for whoever reads the figures.
    pub about: String,
    /// Requests arrive, and throughput is counted, for so long.
    #[serde(deserialize_with = "duration")]
    pub duration: Duration,
    /// Answers are waited for so long after that; what is unfinished then is cancelled.
    #[serde(deserialize_with = "duration")]
    pub drain: Duration,
    /// The model that requests name; unset: none.
    #[serde(default)]
    pub model: Option<String>,
    /// The kinds of requests.
    pub classes: Vec<ClassLoad>,
}

/// One kind of requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClassLoad {
    /// Its name in the report.
    pub name: String,
    /// Whether answers are streamed.
    #[serde(default = "yes")]
    pub stream: bool,
    /// Headers of each request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Who sends them; none: nobody in particular.
    #[serde(default)]
    pub tenants: Vec<TenantLoad>,
    /// Lengths of prompts.
    pub prompt_tokens: Length,
    /// Lengths of answers, sent as `max_tokens`.
    pub output_tokens: Length,
    /// What makes an answer a good one.
    #[serde(default)]
    pub slo: Slo,
    /// How long a client waits for its first token before it leaves; unset: for ever.
    #[serde(default, deserialize_with = "some_duration")]
    pub patience: Option<Duration>,
    /// When requests arrive. Several add up.
    pub arrivals: Vec<Arrivals>,
}

/// A sender.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantLoad {
    /// Its name, for readers of the scenario.
    pub name: String,
    /// Its part of the requests, relative to the other tenants'.
    #[serde(default = "one")]
    pub share: f64,
    /// Headers of its requests, beside the class's.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// When an answer counts as good. What is unset, is not asked for.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Slo {
    /// The longest time to the first token.
    #[serde(default, deserialize_with = "some_duration")]
    pub ttft: Option<Duration>,
    /// The longest mean time between tokens.
    #[serde(default, deserialize_with = "some_duration")]
    pub tpot: Option<Duration>,
}

/// A number of tokens, or how it is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "write a number of tokens, {from, to} or {median, p95}"
)]
pub enum Length {
    /// Always the same.
    Fixed(u64),
    /// Each number from `from` to `to` as often as the others.
    Uniform {
        /// The least.
        from: u64,
        /// The most.
        to: u64,
    },
    /// Log-normal, as lengths of prompts and answers mostly are; never above 4 × `p95`.
    LogNormal {
        /// Half are shorter.
        median: f64,
        /// 95 % are shorter.
        p95: f64,
    },
}

/// When requests arrive: always open loop, whatever becomes of those before.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Arrivals {
    /// Independent of each other.
    Poisson {
        /// The mean rate, outside bursts.
        per_second: f64,
        /// From then on; unset: from the start.
        #[serde(default, deserialize_with = "some_duration")]
        from: Option<Duration>,
        /// Until then; unset: to the end.
        #[serde(default, deserialize_with = "some_duration")]
        until: Option<Duration>,
        /// No more than so many; unset: no bound.
        #[serde(default)]
        count: Option<u64>,
        /// Times of a higher rate; unset: none.
        #[serde(default)]
        bursts: Option<Bursts>,
    },
    /// All in one moment.
    AtOnce {
        /// How many.
        count: u64,
        /// When; unset: at the start.
        #[serde(default, deserialize_with = "some_duration")]
        at: Option<Duration>,
    },
}

/// A rate that rises now and then.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bursts {
    /// From the beginning of one to the next; the first comes after as long.
    #[serde(deserialize_with = "duration")]
    pub every: Duration,
    /// How long each lasts.
    #[serde(deserialize_with = "duration")]
    pub lasting: Duration,
    /// By how much the rate is multiplied meanwhile.
    pub times: f64,
}

/// Why a scenario can't be run.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Neither built in nor a file.
    #[error("there is no scenario {0:?}; write {names}, or the path of a scenario file", names = Scenario::names().join(", "))]
    Unknown(String),
    /// The file can't be read.
    #[error("can't read the scenario file {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The text is not a scenario.
    #[error("scenario {origin}: {reason}")]
    Malformed {
        /// Where it comes from.
        origin: String,
        /// What is wrong.
        reason: String,
    },
    /// It contradicts itself.
    #[error("scenario {origin}: {wrong}")]
    Impossible {
        /// Where it comes from.
        origin: String,
        /// What to change.
        wrong: String,
    },
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    fairtide_api::parse_duration(&text).ok_or_else(|| {
        de::Error::custom(format!(
            "{text:?} is no duration; write one such as 30s, 500ms or 1m30s"
        ))
    })
}

fn some_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

// === impl Scenario ===

impl Scenario {
    /// The names of the built-in scenarios.
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.iter().map(|(name, _)| *name).collect()
    }

    /// The built-in scenario of a name, else the one in the file of that path.
    ///
    /// # Errors
    /// There is neither, or it can't be run.
    pub fn load(name_or_path: &str) -> Result<Self, ScenarioError> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(name, text);
        }
        match std::fs::read_to_string(name_or_path) {
            Ok(text) => Self::parse(name_or_path, &text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(ScenarioError::Unknown(name_or_path.to_owned()))
            }
            Err(source) => Err(ScenarioError::Unreadable {
                path: name_or_path.to_owned(),
                source,
            }),
        }
    }

    /// Reads a scenario's YAML. `origin` says in errors where it comes from.
    ///
    /// # Errors
    /// It can't be run.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ScenarioError> {
        let malformed = |reason: String| ScenarioError::Malformed {
            origin: origin.to_owned(),
            reason,
        };
        // By way of JSON: the YAML crate would want tags for the variants of `Arrivals`.
        let value: serde_json::Value =
            serde_yaml::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let scenario: Self =
            serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
        match scenario.wrong() {
            None => Ok(scenario),
            Some(wrong) => Err(ScenarioError::Impossible {
                origin: origin.to_owned(),
                wrong,
            }),
        }
    }

    fn wrong(&self) -> Option<String> {
        if self.duration.is_zero() {
            return Some("duration must be above 0s".to_owned());
        }
        if self.classes.is_empty() {
            return Some("it has no classes".to_owned());
        }
        let mut names = HashSet::new();
        self.classes.iter().find_map(|class| {
            let wrong = match names.insert(&class.name) {
                true => class.wrong(),
                false => Some("the name is there twice".to_owned()),
            };
            wrong.map(|wrong| format!("class {}: {wrong}", class.name))
        })
    }
}

// === impl ClassLoad ===

impl ClassLoad {
    fn wrong(&self) -> Option<String> {
        let lengths = [
            ("promptTokens", self.prompt_tokens),
            ("outputTokens", self.output_tokens),
        ];
        for (field, length) in lengths {
            let right = match length {
                Length::Fixed(tokens) => tokens > 0,
                Length::Uniform { from, to } => from > 0 && from <= to,
                Length::LogNormal { median, p95 } => {
                    median >= 1.0 && p95 >= median && p95.is_finite()
                }
            };
            if !right {
                return Some(format!("{field} must be at least 1, and in order"));
            }
        }
        if self.arrivals.is_empty() {
            return Some("it has no arrivals".to_owned());
        }
        if self
            .tenants
            .iter()
            .any(|t| !(t.share > 0.0 && t.share.is_finite()))
        {
            return Some("the share of a tenant must be above 0".to_owned());
        }
        let all_headers = self.tenants.iter().map(|tenant| &tenant.headers);
        for (name, value) in all_headers.chain([&self.headers]).flatten() {
            if HeaderName::try_from(name).is_err() || HeaderValue::try_from(value).is_err() {
                return Some(format!("{name}: {value} is no header"));
            }
        }
        self.arrivals.iter().find_map(Arrivals::wrong)
    }
}

// === impl Arrivals ===

impl Arrivals {
    fn wrong(&self) -> Option<String> {
        let Arrivals::Poisson {
            per_second, bursts, ..
        } = self
        else {
            return None;
        };
        let is_rate = |rate: f64| rate > 0.0 && rate <= 1e6;
        if !is_rate(*per_second) {
            return Some("perSecond must be above 0, and at most a million".to_owned());
        }
        let bursts = bursts.as_ref()?;
        if !is_rate(bursts.times) {
            return Some("bursts.times must be above 0, and at most a million".to_owned());
        }
        if bursts.lasting > bursts.every || bursts.every.is_zero() {
            return Some("bursts.lasting must be at most bursts.every".to_owned());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
name: tide
about: a test
duration: 10s
drain: 1m
classes:
  - name: chat
    promptTokens: {median: 100, p95: 400}
    outputTokens: {from: 10, to: 20}
    arrivals:
      - poisson: {perSecond: 3, bursts: {every: 5s, lasting: 1s, times: 4}}
  - name: batch
    promptTokens: 100
    outputTokens: 256
    arrivals:
      - atOnce: {count: 7}
";

    #[test]
    fn built_in_scenarios_are_right() {
        for name in Scenario::names() {
            let scenario = Scenario::load(name).unwrap();
            assert_eq!(scenario.name, name);
        }
    }

    #[test]
    fn mistakes_are_named() {
        Scenario::parse("good", GOOD).unwrap();
        for (from, to, said) in [
            ("duration: 10s", "duration: ten", "\"ten\" is no duration"),
            ("duration: 10s", "duration: 0s", "duration must be above 0s"),
            (
                "promptTokens: 100",
                "promptTokens: some",
                "{from, to} or {median, p95}",
            ),
            (
                "promptTokens: 100",
                "promptTokens: 0",
                "class batch: promptTokens must be",
            ),
            (
                "from: 10, to: 20",
                "from: 21, to: 20",
                "class chat: outputTokens must be",
            ),
            (
                "perSecond: 3",
                "perSecond: -3",
                "class chat: perSecond must be",
            ),
            ("lasting: 1s", "lasting: 6s", "bursts.lasting must be"),
            ("count: 7", "cuont: 7", "unknown field `cuont`"),
            (
                "name: batch",
                "name: chat",
                "class chat: the name is there twice",
            ),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD);
            let error = Scenario::parse("bad", &text).expect_err(to).to_string();
            assert!(error.contains(said), "{to}: {error}");
        }
        let error = Scenario::load("nowhere")
            .expect_err("there is none")
            .to_string();
        assert!(error.contains("demo, burst"), "{error}");
    }
}
