//! One event of a stream: what it says of tokens, errors and the end. Reads the chunks of chat and
//! text completions, and the typed events of the Messages and Responses APIs.

use crate::{Usage, usage::RawUsage};
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    object: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    /// Where the Messages API states the prompt's tokens.
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    /// Where the Responses API states the usage.
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
}

/// What of a `delta` tells a token from the opening role event.
#[derive(Clone, Copy, Debug, Default)]
struct Delta {
    has_role: bool,
    /// A field beside the role, be it empty text.
    has_field: bool,
    /// A field beside the role that isn't empty.
    has_payload: bool,
}

#[derive(Deserialize)]
struct WithUsage {
    #[serde(default)]
    usage: Option<RawUsage>,
}

#[derive(Deserialize)]
struct WithMessage<'a> {
    #[serde(borrow)]
    message: Cow<'a, str>,
}

// === impl Event ===

impl<'a> Event<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(data).ok()
    }

    pub(super) fn choices(&self) -> &[Choice<'a>] {
        self.choices.as_deref().unwrap_or_default()
    }

    /// The words of an error object.
    pub(super) fn error(&self) -> Option<String> {
        let old_shape = self.object.as_deref() == Some("error");
        match self.error {
            Some(error) => Some(
                serde_json::from_str::<WithMessage<'_>>(error.get())
                    .map_or_else(|_| error.get().to_owned(), |e| e.message.into_owned()),
            ),
            None if old_shape => Some(match self.message {
                Some(message) => message.get().to_owned(),
                None => "unknown error".to_owned(),
            }),
            None => None,
        }
    }

    /// About how many tokens the event carries.
    pub(super) fn output_events(&self) -> u64 {
        if let Some(choices) = &self.choices {
            return choices.iter().filter(|choice| choice.is_output()).count() as u64;
        }
        match self.kind.as_deref() {
            // Typed events: `content_block_delta`, `response.output_text.delta`; but
            // `message_delta` only states usage and the end.
            Some("message_delta") => 0,
            Some(kind) => u64::from(kind.ends_with("delta")),
            None => u64::from(self.usage.is_none()),
        }
    }

    /// What it states of the request's tokens.
    pub(super) fn usage(&self) -> Option<Usage> {
        if let Some(usage) = self.usage {
            let usage: RawUsage = serde_json::from_str(usage.get()).ok()?;
            return Some(usage.into());
        }
        if let Some(response) = self.response {
            let response: WithUsage = serde_json::from_str(response.get()).ok()?;
            return response.usage.map(Usage::from);
        }
        let message: WithUsage = serde_json::from_str(self.message?.get()).ok()?;
        // The output stated at the start of a message isn't that of its end.
        message.usage.map(|usage| Usage {
            output: None,
            ..usage.into()
        })
    }
}

// === impl Choice ===

impl Choice<'_> {
    pub(super) fn index(&self) -> u64 {
        self.index.unwrap_or(0)
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.finish_reason.as_deref() == Some("abort")
    }

    /// Text completions have no delta: each of their choices is output.
    fn is_output(&self) -> bool {
        match self.delta {
            Some(delta) if delta.has_role => delta.has_payload,
            Some(delta) => delta.has_field,
            None => true,
        }
    }
}

// === impl Delta ===

impl<'de> Deserialize<'de> for Delta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> de::Visitor<'de> for Fields {
            type Value = Delta;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a delta object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Delta, A::Error> {
                let mut delta = Delta::default();
                while let Some((name, value)) = map.next_entry::<Cow<'de, str>, &RawValue>()? {
                    let value = value.get();
                    if value == "null" {
                        continue;
                    }
                    if name == "role" {
                        delta.has_role = true;
                    } else {
                        delta.has_field = true;
                        delta.has_payload |= !matches!(value, "\"\"" | "[]" | "{}");
                    }
                }
                Ok(delta)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}
