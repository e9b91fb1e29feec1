//! The fields of a JSON body, and what pydantic says of those that have the wrong type.

use crate::engine::error::ApiError;
use serde_json::{Map, Value};

/// Bytes of text that make one token.
const BYTES_PER_TOKEN: usize = 4;

#[derive(Debug)]
pub(super) struct Fields {
    map: Map<String, Value>,
    /// Where they are: `body`, or a path under it.
    at: String,
}

// === impl Fields ===

impl Fields {
    pub fn read(body: &[u8]) -> Result<Self, ApiError> {
        let body: Value =
            serde_json::from_slice(body).map_err(|error| ApiError::syntax(error.column()))?;
        match body {
            Value::Object(map) => Ok(Self {
                map,
                at: "body".to_owned(),
            }),
            other => Err(no_object("body", &other)),
        }
    }

    /// The object in a field; empty where there is none.
    pub fn object(&self, field: &str) -> Result<Self, ApiError> {
        let at = format!("{}.{field}", self.at);
        let map = match self.map.get(field) {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(map)) => map.clone(),
            Some(other) => return Err(no_object(&at, other)),
        };
        Ok(Self { map, at })
    }

    pub fn get(&self, field: &str) -> Option<&Value> {
        self.map.get(field).filter(|value| !value.is_null())
    }

    pub fn missing(&self, field: &str) -> ApiError {
        ApiError::missing(field, self.map.len())
    }

    pub fn integer(&self, field: &str) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let wanted = "Input should be a valid integer, unable to parse string as an integer";
        let number = value.as_i64();
        number
            .map(Some)
            .ok_or_else(|| self.wrong(field, "int_parsing", wanted))
    }

    pub fn boolean(&self, field: &str) -> Result<bool, ApiError> {
        let wanted = "Input should be a valid boolean, unable to interpret input";
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(self.wrong(field, "bool_parsing", wanted)),
        }
    }

    pub fn string(&self, field: &str) -> Result<Option<&str>, ApiError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(field, "string_type", "Input should be a valid string")),
        }
    }

    /// The field is there, and of a wrong type.
    pub fn wrong(&self, field: &str, kind: &str, message: &str) -> ApiError {
        let value = self.map.get(field).map(text).unwrap_or_default();
        ApiError::invalid(&format!("{}.{field}", self.at), kind, message, &value)
    }
}

pub(super) fn tokens_of(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN).max(1) as u64
}

fn no_object(at: &str, value: &Value) -> ApiError {
    ApiError::invalid(
        at,
        "model_attributes_type",
        "Input should be a valid dictionary or object to extract fields from",
        &text(value),
    )
}

/// A value as Python would print it, near enough.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{text}'"),
        other => other.to_string(),
    }
}
