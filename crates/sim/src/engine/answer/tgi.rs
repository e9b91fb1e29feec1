//! TGI's own shapes: a token with its id in each event, the whole text in the last one, and no
//! `[DONE]`.

use super::{VOCABULARY, text, word};
use crate::engine::request::{Endpoint, Generation, TgiPath};
use bytes::{BufMut, BytesMut};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(super) struct Tgi {
    prompt_tokens: u64,
    details: bool,
    in_list: bool,
}

// === impl Tgi ===

impl Tgi {
    pub fn new(request: &Generation) -> Self {
        Self {
            prompt_tokens: request.prompt_tokens,
            details: request.details,
            in_list: request.endpoint == Endpoint::TgiGenerate(TgiPath::Root),
        }
    }

    pub fn token(&self, number: u64, is_last: bool, out: &mut BytesMut) {
        let event = json!({
            "index": number,
            "token": token(number),
            "generated_text": is_last.then(|| text(number)),
            "details": (is_last && self.details).then(|| json!({
                "finish_reason": "length",
                "generated_tokens": number,
                "seed": null,
                "input_length": self.prompt_tokens,
            })),
        });
        out.put_slice(format!("data: {event}\n\n").as_bytes());
    }

    pub fn whole(&self, tokens: u64) -> Value {
        let details = self.details.then(|| {
            json!({
                "finish_reason": "length",
                "generated_tokens": tokens,
                "seed": null,
                "prefill": [],
                "tokens": (1..=tokens).map(token).collect::<Vec<_>>(),
            })
        });
        let mut answer = json!({"generated_text": text(tokens)});
        if let Some(details) = details {
            answer["details"] = details;
        }
        match self.in_list {
            true => json!([answer]),
            false => answer,
        }
    }
}

fn token(number: u64) -> Value {
    let id = number as usize % VOCABULARY.len();
    json!({"id": id, "text": word(number), "logprob": -0.5, "special": false})
}
