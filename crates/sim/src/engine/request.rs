//! What is asked for: the part of OpenAI's chat and completion requests that decides how long the
//! engine is busy with them. Other fields are ignored, as vLLM ignores those it doesn't know.
//!
//! The text itself means nothing here. A prompt has one token per four bytes, or as many as a list
//! of token ids has; the answer has exactly `max_tokens` tokens (as with `ignore_eos`), or 128
//! where the request doesn't say.

use super::error::ApiError;
use http::HeaderMap;
use serde_json::{Map, Value};

/// Output tokens where the request sets no limit: the model then ends its answer by itself.
pub const DEFAULT_OUTPUT_TOKENS: u64 = 128;

/// Bytes of text that make one token.
const BYTES_PER_TOKEN: usize = 4;

/// Which of the two endpoints, and so which shape of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Chat,
    Completion,
}

/// A request that the engine can serve.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Generation {
    pub endpoint: Endpoint,
    pub prompt_tokens: u64,
    pub output_tokens: u64,
    /// `length` when the client's limit ends the answer, `stop` when the model does.
    pub finish_reason: &'static str,
    pub priority: i64,
    pub stream: bool,
    /// An extra event with the usage at the end of the stream.
    pub include_usage: bool,
    /// The usage on every event of the stream.
    pub continuous_usage: bool,
}

// === impl Generation ===

impl Generation {
    pub fn parse(
        endpoint: Endpoint,
        headers: &HeaderMap,
        body: &[u8],
        served_model: &str,
        max_model_len: u64,
    ) -> Result<Self, ApiError> {
        let body: Value = serde_json::from_slice(body).map_err(|error| {
            ApiError::invalid(
                &format!("body.{}", error.column()),
                "json_invalid",
                "JSON decode error",
                "'<dict of 0 items>'",
            )
        })?;
        let Value::Object(body) = body else {
            return Err(ApiError::invalid(
                "body",
                "model_attributes_type",
                "Input should be a valid dictionary or object to extract fields from",
                &text(&body),
            ));
        };
        let prompt_tokens = match endpoint {
            Endpoint::Chat => messages_tokens(&body)?,
            Endpoint::Completion => prompt_tokens(&body)?,
        };
        match body.get("model") {
            None | Some(Value::Null) => {}
            Some(Value::String(model)) if model == served_model || model.is_empty() => {}
            Some(Value::String(model)) => return Err(ApiError::unknown_model(model, served_model)),
            Some(other) => {
                return Err(ApiError::invalid(
                    "body.model",
                    "string_type",
                    "Input should be a valid string",
                    &text(other),
                ));
            }
        }
        if integer(&body, "n")?.unwrap_or(1) != 1 {
            return Err(ApiError::rejected(
                "n",
                "this engine gives one answer per request; leave n out".to_owned(),
            ));
        }
        let limit = match integer(&body, "max_completion_tokens")? {
            None => integer(&body, "max_tokens")?,
            limit => limit,
        };
        let (output_tokens, finish_reason) = output_tokens(prompt_tokens, limit, max_model_len)?;
        let options = body.get("stream_options");
        let option = |name| {
            let value = options.and_then(|options| options.get(name));
            value.and_then(Value::as_bool).unwrap_or(false)
        };
        Ok(Self {
            endpoint,
            prompt_tokens,
            output_tokens,
            finish_reason,
            priority: match header_priority(headers) {
                Some(priority) => priority,
                None => integer(&body, "priority")?.unwrap_or(0),
            },
            stream: boolean(&body, "stream")?,
            include_usage: option("include_usage"),
            continuous_usage: option("include_usage") && option("continuous_usage_stats"),
        })
    }
}

/// The header beats the body, so that a proxy can set a priority without touching the JSON.
fn header_priority(headers: &HeaderMap) -> Option<i64> {
    headers
        .get("x-vllm-priority")?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

fn tokens_of(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN).max(1) as u64
}

fn messages_tokens(body: &Map<String, Value>) -> Result<u64, ApiError> {
    let messages = match body.get("messages") {
        None => return Err(ApiError::missing("messages", body.len())),
        Some(Value::Array(messages)) => messages,
        Some(other) => {
            return Err(ApiError::invalid(
                "body.messages",
                "list_type",
                "Input should be a valid list",
                &text(other),
            ));
        }
    };
    let bytes = messages.iter().map(|message| match message.get("content") {
        Some(Value::String(content)) => content.len(),
        Some(Value::Array(parts)) => parts
            .iter()
            .filter_map(|part| part.get("text")?.as_str())
            .map(str::len)
            .sum(),
        _ => 0,
    });
    Ok(tokens_of(bytes.sum()))
}

fn prompt_tokens(body: &Map<String, Value>) -> Result<u64, ApiError> {
    match body.get("prompt") {
        None => Err(ApiError::missing("prompt", body.len())),
        Some(Value::String(prompt)) => Ok(tokens_of(prompt.len())),
        Some(Value::Array(ids)) if !ids.is_empty() && ids.iter().all(Value::is_u64) => {
            Ok(ids.len() as u64)
        }
        Some(Value::Array(prompts)) => match prompts.as_slice() {
            [Value::String(prompt)] => Ok(tokens_of(prompt.len())),
            _ => Err(ApiError::rejected(
                "prompt",
                "this engine takes one prompt per request: a string, or a list of token ids"
                    .to_owned(),
            )),
        },
        Some(other) => Err(ApiError::invalid(
            "body.prompt",
            "string_type",
            "Input should be a valid string",
            &text(other),
        )),
    }
}

fn output_tokens(
    prompt_tokens: u64,
    limit: Option<i64>,
    max_model_len: u64,
) -> Result<(u64, &'static str), ApiError> {
    if prompt_tokens >= max_model_len {
        let least = max_model_len + 1;
        return Err(ApiError::rejected(
            "input_tokens",
            format!(
                "This model's maximum context length is {max_model_len} tokens. However, your prompt contains at least {least} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value={least})"
            ),
        ));
    }
    let room = max_model_len - prompt_tokens;
    let Some(limit) = limit else {
        return Ok((DEFAULT_OUTPUT_TOKENS.min(room), "stop"));
    };
    match u64::try_from(limit) {
        Ok(limit) if limit > max_model_len => Err(ApiError::rejected(
            "max_tokens",
            format!(
                "max_tokens={limit} cannot be greater than max_model_len={max_model_len}. Please request fewer output tokens. (parameter=max_tokens, value={limit})"
            ),
        )),
        Ok(limit) if limit > room => Err(ApiError::rejected(
            "input_tokens",
            format!(
                "This model's maximum context length is {max_model_len} tokens. However, you requested {limit} output tokens and your prompt contains {prompt_tokens} input tokens, for a total of {} tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value={prompt_tokens})",
                prompt_tokens + limit
            ),
        )),
        Ok(limit) if limit > 0 => Ok((limit, "length")),
        _ => Err(ApiError::rejected(
            "max_tokens",
            format!(
                "max_tokens must be at least 1, got {limit}. (parameter=max_tokens, value={limit})"
            ),
        )),
    }
}

fn integer(body: &Map<String, Value>, field: &str) -> Result<Option<i64>, ApiError> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(ApiError::invalid(
                &format!("body.{field}"),
                "int_parsing",
                "Input should be a valid integer, unable to parse string as an integer",
                &text(value),
            )),
        },
    }
}

fn boolean(body: &Map<String, Value>, field: &str) -> Result<bool, ApiError> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(value) => Err(ApiError::invalid(
            &format!("body.{field}"),
            "bool_parsing",
            "Input should be a valid boolean, unable to interpret input",
            &text(value),
        )),
    }
}

/// A value as Python would print it, near enough.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}
