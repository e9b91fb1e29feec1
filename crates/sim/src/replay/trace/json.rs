//! The two formats with a JSON object in each line: Mooncake's, and our own recordings.

use super::{Format, Row, Wrong};
use serde_json::{Map, Value};

/// The time in seconds, and the rest.
pub(super) fn row(format: Format, text: &str) -> Result<(f64, Row), Wrong> {
    let Ok(Value::Object(object)) = serde_json::from_str(text) else {
        let wrong = "is no JSON object; write one object in each line".to_owned();
        return Err(("", wrong));
    };
    match format {
        Format::Mooncake => Ok((
            milliseconds(&object, "timestamp")? / 1e3,
            Row {
                prompt_tokens: tokens(&object, "input_length")?,
                output_tokens: tokens(&object, "output_length")?,
                blocks: blocks(&object)?,
                ..Row::default()
            },
        )),
        _ => Ok((
            milliseconds(&object, "at_ms")? / 1e3,
            Row {
                prompt_tokens: tokens(&object, "prompt_tokens")?,
                output_tokens: tokens(&object, "output_tokens")?,
                class: text_of(&object, "class")?,
                tenant: text_of(&object, "tenant")?,
                model: text_of(&object, "model")?,
                ..Row::default()
            },
        )),
    }
}

fn milliseconds(object: &Map<String, Value>, name: &'static str) -> Result<f64, Wrong> {
    let time = object.get(name).and_then(Value::as_f64);
    time.filter(|time| *time >= 0.0)
        .ok_or_else(|| (name, wrong(object, name, "milliseconds from 0 up")))
}

fn tokens(object: &Map<String, Value>, name: &'static str) -> Result<u64, Wrong> {
    let tokens = object.get(name).and_then(Value::as_u64);
    tokens.ok_or_else(|| (name, wrong(object, name, "a number of tokens from 0 up")))
}

fn text_of(object: &Map<String, Value>, name: &'static str) -> Result<Option<String>, Wrong> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err((name, wrong(object, name, "a string, or leave it out"))),
    }
}

fn blocks(object: &Map<String, Value>) -> Result<Vec<u64>, Wrong> {
    let Some(value) = object.get("hash_ids") else {
        return Ok(Vec::new());
    };
    let ids = value
        .as_array()
        .map(|ids| ids.iter().map(Value::as_u64).collect());
    ids.flatten().ok_or_else(|| {
        (
            "hash_ids",
            wrong(object, "hash_ids", "a list of whole numbers"),
        )
    })
}

fn wrong(object: &Map<String, Value>, name: &str, write: &str) -> String {
    match object.get(name) {
        None => format!("is missing; write {write}"),
        Some(value) => format!("{value} is not right; write {write}"),
    }
}
