//! What a request asks for, read from its JSON body without changing or copying it.
//!
//! Only the top level is split, into slices of the body; a part is looked into when somebody asks.
//! No schema: engines accept more than any of their documents say. What is absent or strange is
//! unknown, and a body that isn't a JSON object is no error: the engine judges it.

mod prompt;

pub use prompt::PromptSize;

use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// An object with more fields is no request to an engine, and isn't looked into.
const MAX_FIELDS: usize = 256;

/// The top level of a JSON object.
#[derive(Debug)]
pub struct JsonBody<'a> {
    /// Names are unique: of a field that stands there twice the last counts, as in Python.
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
}

// === impl JsonBody ===

impl<'a> JsonBody<'a> {
    /// Splits a body; `None`: it isn't a JSON object in UTF-8.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    /// The model that is asked for.
    pub fn model(&self) -> Option<Cow<'a, str>> {
        serde_json::from_str(self.raw("model")?.get()).ok()
    }

    /// Whether the answer is to be streamed.
    pub fn is_streamed(&self) -> bool {
        self.raw("stream").is_some_and(|raw| raw.get() == "true")
    }

    /// The most output tokens that the request may take: its largest explicit cap, times the
    /// answers it asks for (`n`, or `best_of` candidates), times its prompts. `None`: no cap.
    pub fn output_cap(&self) -> Option<u64> {
        let caps = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
        let cap = caps.iter().filter_map(|name| self.number(name)).max()?;
        let answers = self.number("n").max(self.number("best_of")).unwrap_or(1);
        let prompts = self.prompt().prompts;
        Some(cap.saturating_mul(answers.max(1)).saturating_mul(prompts))
    }

    /// How much prompt there is, over all inputs.
    pub fn prompt(&self) -> PromptSize {
        PromptSize::of(|name| self.raw(name))
    }

    /// The text of a field by its dotted path (`metadata.job`): strings by their content, numbers,
    /// `true` and `false` as they are written. `None`: absent, `null`, an object or a list.
    pub fn text(&self, path: &str) -> Option<Cow<'a, str>> {
        let (name, rest) = match path.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        let raw = self.raw(name)?;
        if let Some(rest) = rest {
            return JsonBody::parse(raw.get().as_bytes())?.text(rest);
        }
        match raw.get().as_bytes().first()? {
            b'"' => serde_json::from_str::<Text<'a>>(raw.get())
                .ok()
                .map(|t| t.0),
            b'{' | b'[' | b'n' => None,
            _ => Some(Cow::Borrowed(raw.get())),
        }
    }

    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        let mut fields = self.fields.iter();
        fields.find(|(field, _)| field == name).map(|(_, raw)| *raw)
    }

    /// A count as clients write it: `50`, `50.0`, `1e3`, and `"50"`, which vLLM takes as well.
    fn number(&self, name: &str) -> Option<u64> {
        let text = self.text(name)?;
        if let Ok(number) = text.parse::<u64>() {
            return Some(number);
        }
        let number = text.parse::<f64>().ok()?;
        // `as` saturates: a cap beyond 64 bits is as good as the largest.
        (number.is_finite() && number >= 0.0).then_some(number as u64)
    }
}

/// Borrows where the string has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for JsonBody<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> de::Visitor<'de> for Fields {
            type Value = JsonBody<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::with_capacity(16);
                while let Some((Text(name), value)) = map.next_entry()? {
                    match fields.iter().position(|(field, _)| *field == name) {
                        Some(at) => fields[at].1 = value,
                        None if fields.len() == MAX_FIELDS => {
                            return Err(de::Error::custom("too many fields"));
                        }
                        None => fields.push((name, value)),
                    }
                }
                Ok(JsonBody { fields })
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests;
