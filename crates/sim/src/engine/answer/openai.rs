//! Chat and text completions: three dialects of OpenAI's shapes.
//!
//! vLLM and SGLang send a role event before the first token, TGI repeats the role on each; SGLang's
//! chats end with an event that has no token.

use super::{About, text, word};
use crate::engine::{
    request::{Endpoint, Generation},
    version::Kind,
};
use bytes::{BufMut, BytesMut};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(super) struct OpenAi {
    kind: Kind,
    is_chat: bool,
    id: String,
    model: String,
    created: u64,
    prompt_tokens: u64,
    finish_reason: &'static str,
    include_usage: bool,
    continuous_usage: bool,
    fingerprint: Option<String>,
    dialect: &'static Dialect,
    /// An event up to its `choices`.
    head: Vec<u8>,
}

/// The pieces of a choice, in which the dialects differ.
#[derive(Debug)]
struct Dialect {
    /// A choice before the first token.
    opening: Option<&'static str>,
    opening_tail: &'static str,
    /// Up to a token's text.
    before: &'static str,
    /// From there to the end of the choice.
    after: &'static str,
    /// The same of the last token, around the reason.
    after_last: Option<(&'static str, &'static str)>,
    /// A choice of its own for the reason.
    ending: Option<(&'static str, &'static str)>,
    /// What an event says of usage where none was asked for.
    no_usage: &'static str,
}

const VLLM_CHAT: Dialect = Dialect {
    opening: Some(
        r#"{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}"#,
    ),
    opening_tail: r#","prompt_token_ids":null,"prompt_text":null"#,
    before: r#"{"index":0,"delta":{"content":""#,
    after: r#""},"logprobs":null,"finish_reason":null,"token_ids":null}"#,
    after_last: Some((
        r#""},"logprobs":null,"finish_reason":""#,
        r#"","stop_reason":null,"token_ids":null}"#,
    )),
    ending: None,
    no_usage: "",
};

const VLLM_TEXT: Dialect = Dialect {
    opening: None,
    opening_tail: "",
    before: r#"{"index":0,"text":""#,
    after: r#"","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}"#,
    after_last: Some((
        r#"","logprobs":null,"finish_reason":""#,
        r#"","stop_reason":null,"prompt_token_ids":null,"token_ids":null}"#,
    )),
    ending: None,
    no_usage: "",
};

const TGI_CHAT: Dialect = Dialect {
    opening: None,
    opening_tail: "",
    before: r#"{"index":0,"delta":{"role":"assistant","content":""#,
    after: r#""},"logprobs":null,"finish_reason":null}"#,
    after_last: Some((r#""},"logprobs":null,"finish_reason":""#, r#""}"#)),
    ending: None,
    no_usage: r#","usage":null"#,
};

const TGI_TEXT: Dialect = Dialect {
    opening: None,
    opening_tail: "",
    before: r#"{"index":0,"text":""#,
    after: r#"","logprobs":null,"finish_reason":""}"#,
    after_last: Some((r#"","logprobs":null,"finish_reason":""#, r#""}"#)),
    ending: None,
    no_usage: "",
};

const SGLANG_CHAT: Dialect = Dialect {
    opening: Some(
        r#"{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}"#,
    ),
    opening_tail: "",
    before: r#"{"index":0,"delta":{"role":null,"content":""#,
    after: r#"","reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}"#,
    after_last: None,
    ending: Some((
        r#"{"index":0,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":""#,
        r#"","matched_stop":null}"#,
    )),
    no_usage: r#","usage":null"#,
};

const SGLANG_TEXT: Dialect = Dialect {
    opening: None,
    opening_tail: "",
    before: r#"{"index":0,"text":""#,
    after: r#"","logprobs":null,"finish_reason":null,"matched_stop":null}"#,
    after_last: Some((
        r#"","logprobs":null,"finish_reason":""#,
        r#"","matched_stop":null}"#,
    )),
    ending: None,
    no_usage: r#","usage":null"#,
};

// === impl OpenAi ===

impl OpenAi {
    pub fn new(request: &Generation, about: &About<'_>) -> Self {
        let kind = about.imitated.kind();
        let is_chat = request.endpoint == Endpoint::Chat;
        let (prefix, object) = match is_chat {
            true => ("chatcmpl", "chat.completion.chunk"),
            false => ("cmpl", "text_completion"),
        };
        let model = match (kind, &request.asked_model) {
            (Kind::Sglang, Some(asked)) => asked,
            _ => about.model,
        };
        let id = match kind {
            Kind::Tgi => String::new(),
            _ => format!("{prefix}-{}", about.id),
        };
        let version = about.imitated.version();
        let fingerprint = match kind {
            Kind::Vllm => Some(format!("fairtide-sim-{version}")),
            Kind::Tgi => Some(format!("{version}-fairtide-sim")),
            Kind::Sglang => None,
        };
        let mut head = format!(
            r#"data: {{"id":{},"object":"{object}","created":{},"model":{}"#,
            json!(id),
            about.created,
            json!(model),
        );
        if let (Kind::Tgi, Some(fingerprint)) = (kind, &fingerprint) {
            head += &format!(r#","system_fingerprint":"{fingerprint}""#);
        }
        head += r#","choices":["#;
        Self {
            kind,
            is_chat,
            id,
            model: model.to_owned(),
            created: about.created,
            prompt_tokens: request.prompt_tokens,
            finish_reason: if request.is_cut { "length" } else { "stop" },
            include_usage: request.include_usage,
            continuous_usage: request.continuous_usage,
            fingerprint,
            dialect: match (kind, is_chat) {
                (Kind::Vllm, true) => &VLLM_CHAT,
                (Kind::Vllm, false) => &VLLM_TEXT,
                (Kind::Tgi, true) => &TGI_CHAT,
                (Kind::Tgi, false) => &TGI_TEXT,
                (Kind::Sglang, true) => &SGLANG_CHAT,
                (Kind::Sglang, false) => &SGLANG_TEXT,
            },
            head: head.into_bytes(),
        }
    }

    pub fn token(&self, number: u64, is_last: bool, out: &mut BytesMut) {
        let dialect = self.dialect;
        if let Some(opening) = dialect.opening.filter(|_| number == 1) {
            self.event(&[opening], 0, dialect.opening_tail, out);
        }
        let (before, word) = (dialect.before, word(number));
        let last_tail = self.last_tail();
        match dialect.after_last.filter(|_| is_last) {
            Some((one, two)) => {
                let choice = [before, word, one, self.finish_reason, two];
                self.event(&choice, number, &last_tail, out);
            }
            None => self.event(&[before, word, dialect.after], number, "", out),
        }
        if !is_last {
            return;
        }
        if let Some((one, two)) = dialect.ending {
            self.event(&[one, self.finish_reason, two], number, "", out);
        }
        self.end(number, &last_tail, out);
    }

    fn event(&self, choice: &[&str], tokens: u64, tail: &str, out: &mut BytesMut) {
        out.put_slice(&self.head);
        for piece in choice {
            out.put_slice(piece.as_bytes());
        }
        out.put_u8(b']');
        if self.continuous_usage {
            out.put_slice(format!(",\"usage\":{}", self.usage(tokens)).as_bytes());
        } else {
            out.put_slice(self.dialect.no_usage.as_bytes());
        }
        out.put_slice(tail.as_bytes());
        out.put_slice(b"}\n\n");
    }

    /// vLLM names the system at the end only.
    fn last_tail(&self) -> String {
        match (self.kind, &self.fingerprint) {
            (Kind::Vllm, Some(print)) => format!(r#","system_fingerprint":"{print}""#),
            _ => String::new(),
        }
    }

    fn end(&self, tokens: u64, tail: &str, out: &mut BytesMut) {
        if self.include_usage {
            out.put_slice(&self.head);
            let usage = self.usage(tokens);
            out.put_slice(format!("],\"usage\":{usage}{tail}}}\n\n").as_bytes());
        }
        out.put_slice(b"data: [DONE]\n\n");
    }

    pub fn whole(&self, tokens: u64) -> Value {
        let mut choice = json!({
            "index": 0,
            "logprobs": null,
            "finish_reason": self.finish_reason,
        });
        let ends = match self.kind {
            Kind::Vllm => Some("stop_reason"),
            Kind::Tgi => None,
            Kind::Sglang => Some("matched_stop"),
        };
        if let Some(field) = ends {
            choice[field] = Value::Null;
        }
        let object = if self.is_chat {
            choice["message"] = json!({"role": "assistant", "content": text(tokens)});
            if self.kind == Kind::Vllm {
                choice["message"]["refusal"] = Value::Null;
            }
            "chat.completion"
        } else {
            choice["text"] = text(tokens).into();
            "text_completion"
        };
        let mut answer = json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": [choice],
            "usage": self.usage(tokens),
        });
        match &self.fingerprint {
            Some(fingerprint) => answer["system_fingerprint"] = fingerprint.as_str().into(),
            None => answer["metadata"] = json!({"weight_version": "default"}),
        }
        answer
    }

    fn usage(&self, tokens: u64) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + tokens,
            "completion_tokens": tokens,
        })
    }
}
