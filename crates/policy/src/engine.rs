//! Which program serves the model.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The engines that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// vLLM.
    #[serde(rename = "VLLM")]
    Vllm,
    /// Text Generation Inference.
    #[serde(rename = "TGI")]
    Tgi,
    /// SGLang.
    #[serde(rename = "SGLang")]
    Sglang,
}

// === impl Engine ===

impl Engine {
    /// Its words, as a sentence lists them.
    pub const WORDS: &'static str = "VLLM, TGI or SGLang";

    /// The engine of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Vllm, Self::Tgi, Self::Sglang]
            .into_iter()
            .find(|engine| engine.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Vllm => "VLLM",
            Self::Tgi => "TGI",
            Self::Sglang => "SGLang",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
