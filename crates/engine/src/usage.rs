//! The token counts that an engine states: OpenAI's names, and those of the Messages and Responses
//! APIs, which vLLM serves as well.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Tokens of one request by the engine's own count. `None`: not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt, those from the prefix cache included.
    pub prompt: Option<u64>,
    /// Prompt tokens that a prefix cache saved.
    pub cached: Option<u64>,
    /// Tokens generated, over all choices.
    pub output: Option<u64>,
}

/// The `usage` object of all three APIs. Separate fields instead of aliases: an object that has
/// both names is no error.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RawUsage {
    #[serde(default, deserialize_with = "count")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<RawDetails>,
    #[serde(default)]
    input_tokens_details: Option<RawDetails>,
}

#[derive(Debug, Default, Deserialize)]
struct RawDetails {
    #[serde(default, deserialize_with = "count")]
    cached_tokens: Option<u64>,
}

/// A count that is strange (negative, a string, a fraction) is unknown.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Value::deserialize(deserializer)?.as_u64())
}

// === impl Usage ===

impl From<RawUsage> for Usage {
    fn from(raw: RawUsage) -> Self {
        let details = raw.prompt_tokens_details.or(raw.input_tokens_details);
        Self {
            prompt: raw.prompt_tokens.or(raw.input_tokens),
            cached: details
                .and_then(|details| details.cached_tokens)
                .or(raw.cache_read_input_tokens),
            output: raw.completion_tokens.or(raw.output_tokens),
        }
    }
}

impl Usage {
    /// Takes over what a later statement says; what it is silent about stays.
    pub(crate) fn update(&mut self, later: Usage) {
        self.prompt = later.prompt.or(self.prompt);
        self.cached = later.cached.or(self.cached);
        self.output = later.output.or(self.output);
    }
}
