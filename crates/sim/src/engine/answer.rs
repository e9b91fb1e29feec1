//! Answers in the words of the engines: one event per token, or one JSON object at the end.
//!
//! Everything of an event but the token's text is the same for all events of an answer, so it is
//! rendered once; a token then costs a few copies into a buffer.

mod openai;
mod sglang;
mod tgi;

use super::{
    error::ApiError,
    request::{Endpoint, Generation},
    version::Imitated,
};
use crate::model::Times;
use bytes::BytesMut;
use openai::OpenAi;
use serde_json::Value;
use sglang::Sglang;
use tgi::Tgi;

/// What the "model" says, over and over. As with a real tokenizer some tokens have no text of
/// their own: they end within a character, whose bytes come with the next one.
const VOCABULARY: &[&str] = &[
    " the", " tide", " comes", " in", ",", " and", " goes", " out", "", " 潮", " again", ".",
];

/// The text of one token, which counts from 1.
fn word(number: u64) -> &'static str {
    VOCABULARY[number as usize % VOCABULARY.len()]
}

/// The text of so many tokens.
fn text(tokens: u64) -> String {
    (1..=tokens).map(word).collect()
}

/// What is the same for all shapes of an answer.
#[derive(Clone, Debug)]
pub(super) struct About<'a> {
    pub imitated: Imitated,
    pub id: &'a str,
    pub model: &'a str,
    /// In Unix seconds.
    pub created: u64,
}

/// Renders the answer to one request.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    imitated: Imitated,
    endpoint: Endpoint,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    OpenAi(OpenAi),
    Tgi(Tgi),
    Sglang(Sglang),
}

// === impl Answer ===

impl Answer {
    pub fn new(request: &Generation, about: &About<'_>) -> Self {
        Self {
            imitated: about.imitated,
            endpoint: request.endpoint,
            shape: match request.endpoint {
                Endpoint::Chat | Endpoint::Completion => Shape::OpenAi(OpenAi::new(request, about)),
                Endpoint::TgiGenerate(_) => Shape::Tgi(Tgi::new(request)),
                Endpoint::SglangGenerate => Shape::Sglang(Sglang::new(request, about)),
            },
        }
    }

    /// Writes the event of one token; before the first also what opens the stream, after the last
    /// what ends it.
    pub fn token(&self, number: u64, is_last: bool, out: &mut BytesMut) {
        match &self.shape {
            Shape::OpenAi(shape) => shape.token(number, is_last, out),
            Shape::Tgi(shape) => shape.token(number, is_last, out),
            Shape::Sglang(shape) => shape.token(number, is_last, out),
        }
    }

    /// The end of a stream whose engine stops.
    pub fn broken_off(&self, out: &mut BytesMut) {
        ApiError::stopped().event(self.imitated.kind(), self.endpoint, out);
    }

    /// The whole answer at once.
    pub fn whole(&self, tokens: u64, times: &Times) -> Value {
        match &self.shape {
            Shape::OpenAi(shape) => shape.whole(tokens),
            Shape::Tgi(shape) => shape.whole(tokens),
            Shape::Sglang(shape) => shape.whole(tokens, times),
        }
    }
}
