//! How much prompt a request carries, before the engine has counted it.

use serde::de::{self, DeserializeSeed, Deserializer};
use serde_json::value::RawValue;
use std::{fmt, ops::AddAssign};

/// Fields whose text the model reads, over the generating, embedding and scoring endpoints.
const TEXT_FIELDS: &[&str] = &[
    "messages",
    "prompt",
    "input",
    "system",
    "instructions",
    "query",
    "queries",
    "documents",
    "text_1",
    "text_2",
    "prompt_token_ids",
    "token_ids",
];

/// Definitions that the chat template writes into the prompt as text.
const DEFINITION_FIELDS: &[&str] = &["tools", "functions"];

/// Fields of a content part whose value is no text: a URL, or base64 that would read as
/// megabytes of prompt.
const MEDIA_FIELDS: &[&str] = &[
    "image_url",
    "image",
    "image_embeds",
    "input_audio",
    "audio",
    "audio_url",
    "video",
    "video_url",
    "file",
    "source",
];

/// Tokens that one picture or clip is taken for: a 336-pixel picture in patches of 14.
const TOKENS_PER_MEDIUM: u64 = 576;

/// The size of a prompt, over all inputs of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptSize {
    /// Bytes of text.
    pub text_bytes: u64,
    /// Tokens given as ids.
    pub token_ids: u64,
    /// Pictures, clips and files.
    pub media: u64,
    /// Prompts that are answered separately; at least 1. A list of one counts as one.
    pub prompts: u64,
}

/// Adds up what a JSON value holds.
#[derive(Clone, Copy)]
struct Measure {
    /// Whether [`MEDIA_FIELDS`] are media. Not in tool definitions, where they name parameters.
    media: bool,
    /// Whether numbers are token ids.
    ids: bool,
    depth: u32,
}

// === impl PromptSize ===

impl PromptSize {
    pub(super) fn of<'a>(field: impl Fn(&str) -> Option<&'a RawValue>) -> Self {
        let mut sum = PromptSize {
            prompts: 0,
            ..Self::EMPTY
        };
        for name in TEXT_FIELDS {
            let Some(raw) = field(name) else { continue };
            let ids = matches!(*name, "prompt" | "input" | "prompt_token_ids" | "token_ids");
            let part = Self::measure(raw, true, ids);
            // The prompts are those of the field that has most; others go with each of them.
            let prompts = sum.prompts.max(part.prompts);
            sum += part;
            sum.prompts = prompts;
        }
        for name in DEFINITION_FIELDS {
            if let Some(raw) = field(name) {
                sum += Self::measure(raw, false, false);
            }
        }
        sum.prompts = sum.prompts.max(1);
        sum
    }

    /// Tokens, where a byte of text is taken for `tokens_per_byte`; at least 1.
    pub fn tokens(&self, tokens_per_byte: f64) -> u64 {
        let text = (self.text_bytes as f64 * tokens_per_byte).ceil() as u64;
        let rest = self.token_ids + self.media * TOKENS_PER_MEDIUM;
        text.saturating_add(rest).max(1)
    }

    const EMPTY: Self = Self {
        text_bytes: 0,
        token_ids: 0,
        media: 0,
        prompts: 0,
    };

    fn measure(raw: &RawValue, media: bool, ids: bool) -> Self {
        let measure = Measure {
            media,
            ids,
            depth: 0,
        };
        let mut reader = serde_json::Deserializer::from_str(raw.get());
        // Nested too deep, or a broken escape: take all of it for text.
        measure.deserialize(&mut reader).unwrap_or(Self {
            text_bytes: raw.get().len() as u64,
            ..Self::EMPTY
        })
    }
}

impl AddAssign for PromptSize {
    fn add_assign(&mut self, other: Self) {
        self.text_bytes += other.text_bytes;
        self.token_ids += other.token_ids;
        self.media += other.media;
    }
}

// === impl Measure ===

impl<'de> DeserializeSeed<'de> for Measure {
    type Value = PromptSize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<PromptSize, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for Measure {
    type Value = PromptSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_str<E>(self, text: &str) -> Result<PromptSize, E> {
        Ok(PromptSize {
            text_bytes: text.len() as u64,
            prompts: 1,
            ..PromptSize::EMPTY
        })
    }

    fn visit_u64<E>(self, _: u64) -> Result<PromptSize, E> {
        Ok(PromptSize {
            token_ids: u64::from(self.ids && self.depth > 0),
            ..PromptSize::EMPTY
        })
    }

    fn visit_i64<E>(self, _: i64) -> Result<PromptSize, E> {
        Ok(PromptSize::EMPTY)
    }

    fn visit_f64<E>(self, _: f64) -> Result<PromptSize, E> {
        Ok(PromptSize::EMPTY)
    }

    fn visit_bool<E>(self, _: bool) -> Result<PromptSize, E> {
        Ok(PromptSize::EMPTY)
    }

    fn visit_unit<E>(self) -> Result<PromptSize, E> {
        Ok(PromptSize::EMPTY)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<PromptSize, A::Error> {
        let inner = Self {
            depth: self.depth + 1,
            ..self
        };
        let mut sum = PromptSize::EMPTY;
        while let Some(item) = list.next_element_seed(inner)? {
            // Strings and lists inside the top list are prompts of their own.
            sum.prompts += item.prompts.min(1);
            sum += item;
        }
        if self.depth > 0 {
            sum.prompts = 1;
        }
        Ok(sum)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<PromptSize, A::Error> {
        let inner = Self {
            depth: self.depth + 1,
            ids: false,
            ..self
        };
        let mut sum = PromptSize::EMPTY;
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if self.media && MEDIA_FIELDS.contains(&name.as_ref()) {
                map.next_value::<de::IgnoredAny>()?;
                sum.media += 1;
            } else {
                sum += map.next_value_seed(inner)?;
            }
        }
        Ok(sum)
    }
}
