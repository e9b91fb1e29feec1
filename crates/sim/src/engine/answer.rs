//! Answers in vLLM's words: one event per token, or one JSON object at the end.
//!
//! Everything of an event but the token's text is the same for all events of an answer, so it is
//! rendered once; a token then costs three copies into a buffer.

use super::{
    error::ApiError,
    request::{Endpoint, Generation},
};
use bytes::{BufMut, BytesMut};
use serde_json::{Value, json};

/// What the "model" says, over and over. As with a real tokenizer some tokens have no text of
/// their own: they end within a character, whose bytes come with the next one.
const VOCABULARY: &[&str] = &[
    " the", " tide", " comes", " in", ",", " and", " goes", " out", "", " 潮", " again", ".",
];

const FINGERPRINT: &str = "fairtide-sim-0.32.0";

/// The text of one token.
fn word(number: u64) -> &'static str {
    VOCABULARY[number as usize % VOCABULARY.len()]
}

/// Renders the answer to one request.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    endpoint: Endpoint,
    id: String,
    model: String,
    created: u64,
    prompt_tokens: u64,
    finish_reason: &'static str,
    include_usage: bool,
    continuous_usage: bool,
    /// An event up to its `choices`.
    head: Vec<u8>,
}

// === impl Answer ===

impl Answer {
    pub fn new(request: &Generation, id: &str, model: &str, created: u64) -> Self {
        let (prefix, object) = match request.endpoint {
            Endpoint::Chat => ("chatcmpl", "chat.completion.chunk"),
            Endpoint::Completion => ("cmpl", "text_completion"),
        };
        let id = format!("{prefix}-{id}");
        let head = format!(
            r#"data: {{"id":{},"object":"{object}","created":{created},"model":{},"choices":["#,
            json!(id),
            json!(model),
        );
        Self {
            endpoint: request.endpoint,
            id,
            model: model.to_owned(),
            created,
            prompt_tokens: request.prompt_tokens,
            finish_reason: request.finish_reason,
            include_usage: request.include_usage,
            continuous_usage: request.continuous_usage,
            head: head.into_bytes(),
        }
    }

    /// Writes the event of one token; before the first also the role, after the last the end.
    pub fn token(&self, number: u64, is_last: bool, out: &mut BytesMut) {
        if number == 1 && self.endpoint == Endpoint::Chat {
            out.put_slice(&self.head);
            out.put_slice(br#"{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]"#);
            self.continuous(0, out);
            out.put_slice(b",\"prompt_token_ids\":null,\"prompt_text\":null}\n\n");
        }
        out.put_slice(&self.head);
        out.put_slice(match self.endpoint {
            Endpoint::Chat => br#"{"index":0,"delta":{"content":""#,
            Endpoint::Completion => br#"{"index":0,"text":""#,
        });
        out.put_slice(word(number).as_bytes());
        if self.endpoint == Endpoint::Chat {
            out.put_slice(b"\"}");
        } else {
            out.put_slice(b"\"");
        }
        if is_last {
            out.put_slice(br#","logprobs":null,"finish_reason":""#);
            out.put_slice(self.finish_reason.as_bytes());
            out.put_slice(br#"","stop_reason":null,"token_ids":null}]"#);
            self.continuous(number, out);
            out.put_slice(b",\"system_fingerprint\":\"");
            out.put_slice(FINGERPRINT.as_bytes());
            out.put_slice(b"\"}\n\n");
            self.end(number, out);
        } else {
            out.put_slice(br#","logprobs":null,"finish_reason":null,"token_ids":null}]"#);
            self.continuous(number, out);
            out.put_slice(b"}\n\n");
        }
    }

    fn continuous(&self, tokens: u64, out: &mut BytesMut) {
        if self.continuous_usage {
            out.put_slice(b",\"usage\":");
            out.put_slice(self.usage(tokens).to_string().as_bytes());
        }
    }

    fn end(&self, tokens: u64, out: &mut BytesMut) {
        if self.include_usage {
            out.put_slice(&self.head);
            let usage = self.usage(tokens);
            out.put_slice(
                format!("],\"usage\":{usage},\"system_fingerprint\":\"{FINGERPRINT}\"}}\n\n")
                    .as_bytes(),
            );
        }
        out.put_slice(b"data: [DONE]\n\n");
    }

    /// The end of a stream whose engine stops.
    pub fn broken_off(error: &ApiError, out: &mut BytesMut) {
        out.put_slice(format!("data: {}\n\ndata: [DONE]\n\n", error.json()).as_bytes());
    }

    /// The whole answer at once.
    pub fn whole(&self, tokens: u64) -> Value {
        let text: String = (1..=tokens).map(word).collect();
        let usage = self.usage(tokens);
        let (object, choice) = match self.endpoint {
            Endpoint::Chat => (
                "chat.completion",
                json!({
                    "index": 0,
                    "message": {"role": "assistant", "content": text, "refusal": null},
                    "logprobs": null,
                    "finish_reason": self.finish_reason,
                    "stop_reason": null,
                }),
            ),
            Endpoint::Completion => (
                "text_completion",
                json!({
                    "index": 0,
                    "text": text,
                    "logprobs": null,
                    "finish_reason": self.finish_reason,
                    "stop_reason": null,
                }),
            ),
        };
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": [choice],
            "system_fingerprint": FINGERPRINT,
            "usage": usage,
        })
    }

    fn usage(&self, tokens: u64) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + tokens,
            "completion_tokens": tokens,
        })
    }
}
