//! The usage of an answer that isn't streamed. It is read from a bounded copy beside the forwarded
//! bytes, at the end of the body, however the network cut it.

use crate::{Usage, usage::RawUsage};
use serde::Deserialize;

/// Answers up to this size are kept whole and read as JSON: chat answers of 50,000 tokens fit.
const MAX_WHOLE: usize = 256 << 10;

/// Of larger ones (embeddings, log-probabilities) this much of the end is kept: vLLM writes
/// `usage` behind the data.
const TAIL: usize = 64 << 10;

/// Watches the body of a plain JSON answer.
#[derive(Debug, Default)]
pub struct PlainAnswer {
    kept: Vec<u8>,
    cut: bool,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    usage: Option<RawUsage>,
}

// === impl PlainAnswer ===

impl PlainAnswer {
    /// The next bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(MAX_WHOLE)..];
        self.kept.extend_from_slice(bytes);
        if self.kept.len() > MAX_WHOLE {
            self.kept.drain(..self.kept.len() - TAIL);
            self.cut = true;
        }
    }

    /// What the body says of its tokens, once it is complete.
    pub fn usage(&self) -> Option<Usage> {
        if !self.cut
            && let Ok(answer) = serde_json::from_slice::<Answer>(&self.kept)
        {
            return answer.usage.map(Usage::from);
        }
        self.usage_in_tail()
    }

    /// The last `"usage": {…}`. Quotes inside JSON strings are escaped, so generated text can't
    /// pose as the key.
    fn usage_in_tail(&self) -> Option<Usage> {
        const KEY: &[u8] = b"\"usage\"";
        let at = self.kept.windows(KEY.len()).rposition(|part| part == KEY)?;
        let rest = self.kept[at + KEY.len()..].trim_ascii_start();
        let value = rest.strip_prefix(b":")?;
        let mut values = serde_json::Deserializer::from_slice(value).into_iter::<RawUsage>();
        Some(values.next()?.ok()?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":"say \"usage\": {\"completion_tokens\": 99}"},"finish_reason":"length"}],"usage":{"prompt_tokens":14,"total_tokens":22,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":4}},"kv_transfer_params":null}"#;

    fn read(parts: &[&[u8]]) -> Option<Usage> {
        let mut answer = PlainAnswer::default();
        for part in parts {
            answer.push(part);
        }
        answer.usage()
    }

    #[test]
    fn usage_is_read_however_the_body_is_cut() {
        let whole = Usage {
            prompt: Some(14),
            cached: Some(4),
            output: Some(8),
        };
        for cut in 0..CHAT.len() {
            let (a, b) = CHAT.as_bytes().split_at(cut);
            assert_eq!(read(&[a, b, b""]), Some(whole), "cut at {cut}");
        }
    }

    #[test]
    fn an_answer_that_is_not_json_says_nothing() {
        assert_eq!(read(&[b"<html>busy</html>"]), None);
        assert_eq!(read(&[b""]), None);
        assert_eq!(read(&[br#"{"usage":null}"#]), None);
        assert_eq!(read(&[br#"{"usage":"#]), None);
    }

    #[test]
    fn of_a_huge_answer_the_end_is_enough() {
        let mut answer = PlainAnswer::default();
        answer.push(br#"{"data":["#);
        for _ in 0..200_000 {
            answer.push(b"0.12345678, ");
        }
        answer.push(br#"0],"usage": {"prompt_tokens":7,"total_tokens":7}}"#);
        assert!(answer.kept.capacity() < 2 * MAX_WHOLE, "memory is bounded");
        assert_eq!(answer.usage().and_then(|usage| usage.prompt), Some(7));
        assert_eq!(answer.usage().and_then(|usage| usage.output), None);
    }

    #[test]
    fn one_huge_write_is_bounded_as_well() {
        let mut body = vec![b' '; 8 << 20];
        body.extend_from_slice(CHAT.as_bytes());
        let mut answer = PlainAnswer::default();
        answer.push(&body);
        assert!(answer.kept.capacity() < 2 * MAX_WHOLE + TAIL);
        assert_eq!(answer.usage().and_then(|usage| usage.output), Some(8));
    }

    #[test]
    fn the_messages_api_has_names_of_its_own() {
        let usage = read(&[br#"{"type":"message","usage":{"input_tokens":14,"output_tokens":2}}"#]);
        assert_eq!(usage.and_then(|usage| usage.prompt), Some(14));
        assert_eq!(usage.and_then(|usage| usage.output), Some(2));
    }

    #[test]
    fn a_strange_count_is_unknown_and_not_zero() {
        let usage = read(&[br#"{"usage":{"prompt_tokens":-3,"completion_tokens":"8"}}"#]);
        assert_eq!(usage, Some(Usage::default()));
    }
}
