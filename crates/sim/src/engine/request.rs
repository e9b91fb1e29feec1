//! What is asked for: the part of a request that decides how long the engine is busy with it.
//! Other fields are ignored, as the engines ignore those that they don't know.
//!
//! The text itself means nothing here. A prompt has one token per four bytes, or as many as a list
//! of token ids has; the answer has exactly as many tokens as its limit says (as with
//! `ignore_eos`), or the default of the endpoint where the request doesn't say.

mod fields;
mod native;
mod openai;

use super::{error::ApiError, version::Kind};
use fields::Fields;
use http::HeaderMap;

/// Output tokens where a chat sets no limit: the model then ends its answer by itself.
pub const DEFAULT_OUTPUT_TOKENS: u64 = 128;

/// Which endpoint, and so which shapes of request and answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completion,
    /// TGI's own.
    TgiGenerate(TgiPath),
    /// SGLang's `/generate`.
    SglangGenerate,
}

/// TGI has three paths for one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TgiPath {
    /// `/generate`: never streamed.
    Plain,
    /// `/generate_stream`: always.
    Stream,
    /// `/`: as the body says, and the plain answer in a list.
    Root,
}

/// What the engine is like, as far as it decides about requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served<'a> {
    pub kind: Kind,
    pub model: &'a str,
    pub max_model_len: u64,
}

/// A request that the engine can serve.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Generation {
    pub endpoint: Endpoint,
    pub prompt_tokens: u64,
    /// Of the prompt; 0 where only tokens are known.
    pub characters: u64,
    pub output_tokens: u64,
    /// The client's limit ends the answer, not the model.
    pub is_cut: bool,
    /// Lower goes first.
    pub priority: i64,
    /// An extra event with the usage at the end of the stream.
    pub include_usage: bool,
    /// The usage on every event of the stream.
    pub continuous_usage: bool,
    /// TGI: facts about the answer beside its text.
    pub details: bool,
    /// The model by the client's name; SGLang answers with it, whatever it is.
    pub asked_model: Option<String>,
}

/// A body that is JSON, before it is known to be a request.
#[derive(Debug)]
pub(super) struct Asked {
    endpoint: Endpoint,
    fields: Fields,
    pub is_streamed: bool,
}

// === impl Asked ===

impl Asked {
    pub fn read(endpoint: Endpoint, body: &[u8]) -> Result<Self, ApiError> {
        let fields = Fields::read(body)?;
        let is_streamed = match endpoint {
            Endpoint::TgiGenerate(TgiPath::Plain) => false,
            Endpoint::TgiGenerate(TgiPath::Stream) => true,
            _ => fields.boolean("stream")?,
        };
        Ok(Self {
            endpoint,
            fields,
            is_streamed,
        })
    }

    pub fn generation(
        &self,
        headers: &HeaderMap,
        served: Served<'_>,
    ) -> Result<Generation, ApiError> {
        match self.endpoint {
            Endpoint::Chat | Endpoint::Completion => {
                openai::generation(self.endpoint, &self.fields, headers, served)
            }
            Endpoint::TgiGenerate(_) => native::tgi(self.endpoint, &self.fields, served),
            Endpoint::SglangGenerate => native::sglang(&self.fields, served),
        }
    }
}
