//! SGLang's own shapes: each event has all the text so far, and facts beside it.

use super::{About, text};
use crate::{engine::request::Generation, model::Times};
use bytes::{BufMut, BytesMut};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(super) struct Sglang {
    id: String,
    prompt_tokens: u64,
}

// === impl Sglang ===

impl Sglang {
    pub fn new(request: &Generation, about: &About<'_>) -> Self {
        Self {
            id: about.id.to_owned(),
            prompt_tokens: request.prompt_tokens,
        }
    }

    pub fn token(&self, number: u64, is_last: bool, out: &mut BytesMut) {
        let event = json!({"text": text(number), "meta_info": self.facts(number, is_last)});
        out.put_slice(format!("data: {event}\n\n").as_bytes());
        if is_last {
            out.put_slice(b"data: [DONE]\n\n");
        }
    }

    pub fn whole(&self, tokens: u64, times: &Times) -> Value {
        let mut facts = self.facts(tokens, true);
        let latency = times.queued + times.prefill + times.decode;
        facts["e2e_latency"] = latency.as_secs_f64().into();
        json!({"text": text(tokens), "meta_info": facts})
    }

    fn facts(&self, tokens: u64, is_last: bool) -> Value {
        json!({
            "id": self.id,
            "finish_reason": is_last.then(|| json!({"type": "length", "length": tokens})),
            "prompt_tokens": self.prompt_tokens,
            "weight_version": "default",
            "completion_tokens": tokens,
            "cached_tokens": 0,
        })
    }
}
