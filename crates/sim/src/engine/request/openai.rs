//! OpenAI's chat and completion requests. vLLM's words are used where they are wrong; TGI and
//! SGLang say the same mistakes in their own shapes.

use super::{
    DEFAULT_OUTPUT_TOKENS, Endpoint, Generation, Served,
    fields::{Fields, tokens_of},
};
use crate::engine::{error::ApiError, version::Kind};
use http::HeaderMap;
use serde_json::Value;

pub(super) fn generation(
    endpoint: Endpoint,
    fields: &Fields,
    headers: &HeaderMap,
    served: Served<'_>,
) -> Result<Generation, ApiError> {
    let prompt_tokens = match endpoint {
        Endpoint::Chat => messages_tokens(fields)?,
        _ => prompt_tokens(fields)?,
    };
    let asked_model = fields.string("model")?.filter(|model| !model.is_empty());
    // The others serve their model by any name.
    if let Some(asked) = asked_model.filter(|asked| *asked != served.model)
        && served.kind == Kind::Vllm
    {
        return Err(ApiError::unknown_model(asked, served.model));
    }
    if fields.integer("n")?.unwrap_or(1) != 1 {
        return Err(ApiError::rejected(
            "n",
            "this engine gives one answer per request; leave n out".to_owned(),
        ));
    }
    let limit = match fields.integer("max_completion_tokens")? {
        None => fields.integer("max_tokens")?,
        limit => limit,
    };
    let (output_tokens, is_cut) = output_tokens(prompt_tokens, limit, served)?;
    let options = fields.get("stream_options");
    let option = |name| {
        let value = options.and_then(|options| options.get(name));
        value.and_then(Value::as_bool).unwrap_or(false)
    };
    let priority = fields.integer("priority")?.unwrap_or(0);
    Ok(Generation {
        endpoint,
        prompt_tokens,
        characters: 0,
        output_tokens,
        is_cut,
        priority: match served.kind {
            Kind::Vllm => header_priority(headers).unwrap_or(priority),
            // It has no such field.
            Kind::Tgi => 0,
            // The other way round: more urgent is higher.
            Kind::Sglang => priority.saturating_neg(),
        },
        include_usage: option("include_usage"),
        continuous_usage: served.kind != Kind::Tgi
            && option("include_usage")
            && option("continuous_usage_stats"),
        details: false,
        asked_model: asked_model.map(str::to_owned),
    })
}

/// The header beats the body, so that a proxy can set a priority without touching the JSON.
fn header_priority(headers: &HeaderMap) -> Option<i64> {
    let text = headers.get("x-vllm-priority")?.to_str().ok()?;
    text.trim().parse().ok()
}

fn messages_tokens(fields: &Fields) -> Result<u64, ApiError> {
    let messages = match fields.get("messages") {
        None => return Err(fields.missing("messages")),
        Some(Value::Array(messages)) => messages,
        Some(_) => {
            return Err(fields.wrong("messages", "list_type", "Input should be a valid list"));
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

fn prompt_tokens(fields: &Fields) -> Result<u64, ApiError> {
    match fields.get("prompt") {
        None => Err(fields.missing("prompt")),
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
        Some(_) => Err(fields.wrong("prompt", "string_type", "Input should be a valid string")),
    }
}

fn output_tokens(
    prompt_tokens: u64,
    limit: Option<i64>,
    served: Served<'_>,
) -> Result<(u64, bool), ApiError> {
    let max_model_len = served.max_model_len;
    if served.kind != Kind::Vllm {
        return super::native::output_tokens(prompt_tokens, limit, DEFAULT_OUTPUT_TOKENS, served);
    }
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
        return Ok((DEFAULT_OUTPUT_TOKENS.min(room), false));
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
        Ok(limit) if limit > 0 => Ok((limit, true)),
        _ => Err(ApiError::rejected(
            "max_tokens",
            format!(
                "max_tokens must be at least 1, got {limit}. (parameter=max_tokens, value={limit})"
            ),
        )),
    }
}
