//! The engines' own requests: TGI's `inputs` and SGLang's `text`, and the limits in their words.

use super::{
    Endpoint, Generation, Served,
    fields::{Fields, tokens_of},
};
use crate::engine::{error::ApiError, version::Kind};
use serde_json::Value;

/// Where `/generate` sets no limit.
const TGI_DEFAULT: u64 = 100;
const SGLANG_DEFAULT: u64 = 128;

pub(super) fn tgi(
    endpoint: Endpoint,
    fields: &Fields,
    served: Served<'_>,
) -> Result<Generation, ApiError> {
    let inputs = match fields.string("inputs")? {
        None => return Err(fields.missing("inputs")),
        Some(inputs) => inputs,
    };
    if inputs.is_empty() {
        let message = "`inputs` cannot be empty".to_owned();
        return Err(ApiError::rejected("inputs", message));
    }
    let parameters = fields.object("parameters")?;
    if parameters.integer("best_of")?.unwrap_or(1) != 1 {
        let message = "this engine gives one answer per request; leave best_of out".to_owned();
        return Err(ApiError::rejected("best_of", message));
    }
    let details = parameters.boolean("details")? || parameters.boolean("decoder_input_details")?;
    let prompt_tokens = tokens_of(inputs.len());
    let limit = parameters.integer("max_new_tokens")?;
    let (output_tokens, _) = output_tokens(prompt_tokens, limit, TGI_DEFAULT, served)?;
    Ok(Generation {
        endpoint,
        prompt_tokens,
        characters: inputs.chars().count() as u64,
        output_tokens,
        is_cut: true,
        priority: 0,
        include_usage: false,
        continuous_usage: false,
        details,
        asked_model: None,
    })
}

pub(super) fn sglang(fields: &Fields, served: Served<'_>) -> Result<Generation, ApiError> {
    let prompt_tokens = match (fields.get("text"), fields.get("input_ids")) {
        (Some(Value::String(text)), None) => tokens_of(text.len()),
        (None, Some(Value::Array(ids))) if ids.iter().all(Value::is_u64) => ids.len() as u64,
        (None, None) => {
            let message = "Either text, input_ids or input_embeds should be provided.";
            return Err(ApiError::rejected("text", message.to_owned()));
        }
        _ => {
            let message = "this engine takes one prompt per request: text, or a list of token ids in input_ids";
            return Err(ApiError::rejected("text", message.to_owned()));
        }
    };
    let sampling = fields.object("sampling_params")?;
    if sampling.integer("n")?.unwrap_or(1) != 1 {
        let message = "this engine gives one answer per request; leave n out".to_owned();
        return Err(ApiError::rejected("n", message));
    }
    let limit = sampling.integer("max_new_tokens")?;
    let (output_tokens, _) = output_tokens(prompt_tokens, limit, SGLANG_DEFAULT, served)?;
    Ok(Generation {
        endpoint: Endpoint::SglangGenerate,
        prompt_tokens,
        characters: 0,
        output_tokens,
        is_cut: true,
        priority: fields.integer("priority")?.unwrap_or(0).saturating_neg(),
        include_usage: false,
        continuous_usage: false,
        details: false,
        asked_model: None,
    })
}

/// The length of the answer, and whether the limit of the client ends it.
pub(super) fn output_tokens(
    prompt_tokens: u64,
    limit: Option<i64>,
    default: u64,
    served: Served<'_>,
) -> Result<(u64, bool), ApiError> {
    let most = served.max_model_len;
    let tgi = served.kind == Kind::Tgi;
    if prompt_tokens >= most {
        let message = if tgi {
            format!(
                "`inputs` must have less than {} tokens. Given: {prompt_tokens}",
                most - 1
            )
        } else {
            format!(
                "The input ({prompt_tokens} tokens) is longer than the model's context length ({most} tokens)."
            )
        };
        return Err(ApiError::rejected("input_tokens", message));
    }
    let Some(limit) = limit else {
        return Ok((default.min(most - prompt_tokens), false));
    };
    let total = |limit: u64| prompt_tokens.saturating_add(limit);
    match u64::try_from(limit) {
        Ok(limit) if limit > 0 && total(limit) <= most => Ok((limit, true)),
        Ok(limit) if limit > 0 => Err(ApiError::rejected(
            "max_tokens",
            if tgi {
                format!(
                    "`inputs` tokens + `max_new_tokens` must be <= {most}. Given: {prompt_tokens} `inputs` tokens and {limit} `max_new_tokens`"
                )
            } else {
                format!(
                    "Requested token count exceeds the model's maximum context length of {most} tokens. You requested a total of {} tokens: {prompt_tokens} tokens from the input messages and {limit} tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
                    total(limit)
                )
            },
        )),
        _ => Err(ApiError::rejected(
            "max_tokens",
            if tgi {
                "`max_new_tokens` must be strictly positive".to_owned()
            } else {
                format!("max_new_tokens must be at least 1, got {limit}.")
            },
        )),
    }
}
