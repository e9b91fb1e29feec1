//! What an engine on some hardware is like: its limits, and how long one step takes it.
//!
//! A step costs a constant (the weights are read once, however many sequences share the step), a
//! little per sequence, the KV cache of every sequence that decodes, and the arithmetic of the
//! prompt tokens that it prefills. Those four numbers and the limits are a [`Profile`]; some are
//! built in, others are read from a YAML file with the same fields.

use serde::Deserialize;
use std::time::Duration;

/// Tokens of one KV block; vLLM's default on GPUs.
pub const BLOCK_TOKENS: u64 = 16;

/// An engine's limits and speed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// The most sequences in one step.
    pub max_num_seqs: usize,
    /// The most tokens, decoded and prefilled, in one step. At least `max_num_seqs`.
    pub max_num_batched_tokens: u64,
    /// The most tokens, prompt and output, of one request.
    pub max_model_len: u64,
    /// Tokens that the KV cache holds. At least `max_model_len`, so that one request always fits.
    pub kv_tokens: u64,
    /// How long a step takes.
    pub step: StepTime,
}

/// The parts of a step's duration, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepTime {
    /// Every step.
    pub base_us: f64,
    /// Per sequence in the step.
    pub per_sequence_us: f64,
    /// Per token of context of each sequence that decodes.
    pub per_context_token_us: f64,
    /// Per prompt token that is prefilled.
    pub per_prefill_token_us: f64,
}

/// What one step has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepLoad {
    /// Sequences in it.
    pub sequences: u64,
    /// Context of those that decode.
    pub context_tokens: u64,
    /// Prompt tokens that it prefills.
    pub prefill_tokens: u64,
}

/// Why a profile can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Neither built in nor a file.
    #[error("there is no profile {name:?}; write one of {}, or the path of a profile file", Profile::NAMES.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file can't be read.
    #[error("can't read the profile file {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file isn't a profile.
    #[error("the profile file {path} is not right: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The numbers contradict each other.
    #[error("{0}")]
    Impossible(&'static str),
}

/// Llama-3.1-8B in bf16 on an H100 with 80 GB. Base, sequence and context are the coefficients
/// that the BLIS simulator fitted to vLLM (inference-sim, `defaults.yaml`, trained-physics). Its
/// 17.25 µs per prefill token would be 94 % of the card's peak; 32 µs is half of peak, which is
/// nearer to what is measured. 80 GB × 0.9 less weights and activations leaves about 54 GB for KV
/// at 128 KiB a token. Limits are vLLM's defaults for this card, but for the context length.
const LLAMA_8B_H100: Profile = Profile {
    max_num_seqs: 1024,
    max_num_batched_tokens: 8192,
    max_model_len: 32_768,
    kv_tokens: 400_000,
    step: StepTime {
        base_us: 7660.0,
        per_sequence_us: 4.4,
        per_context_token_us: 0.0762,
        per_prefill_token_us: 32.0,
    },
};

/// The same model on an L40S with 48 GB. Not measured: the H100's numbers with this card's data
/// sheet (864 GB/s, 362 TFLOPS in bf16): 16 GB of weights at 93 % of the bandwidth, KV by the
/// ratio of the bandwidths less the same overhead, prefill at 60 % of peak. 32 sequences is what
/// people set who watch their token latency.
const LLAMA_8B_L40S: Profile = Profile {
    max_num_seqs: 32,
    max_num_batched_tokens: 2048,
    max_model_len: 16_384,
    kv_tokens: 190_000,
    step: StepTime {
        base_us: 20_000.0,
        per_sequence_us: 10.0,
        per_context_token_us: 0.17,
        per_prefill_token_us: 74.0,
    },
};

/// Llama-3.1-70B in bf16 on 8 × H100, tensor parallel. Not measured: derived from the 8B's fit by
/// the models' shapes. Base: 141 GB of weights at the 63 % of 26.8 TB/s that the fit gives, and 160
/// all-reduces of 15 µs. Context: 320 KiB a token at half of the bandwidth, as in the fit. Prefill:
/// 141 GFLOP a token at half of 7.9 PFLOPS. KV: 8 × 72 GB less weights and 4 GB a card of overhead.
const LLAMA_70B_8XH100: Profile = Profile {
    max_num_seqs: 1024,
    max_num_batched_tokens: 8192,
    max_model_len: 32_768,
    kv_tokens: 1_200_000,
    step: StepTime {
        base_us: 10_800.0,
        per_sequence_us: 4.4,
        per_context_token_us: 0.0238,
        per_prefill_token_us: 36.0,
    },
};

/// No model in particular: 16 slots, and a step of 10 ms and 1 ms for each running sequence. The
/// engine of the `burst` scenario, small enough to be reasoned about by hand.
const MOCK_16: Profile = Profile {
    max_num_seqs: 16,
    max_num_batched_tokens: 8192,
    max_model_len: 8192,
    kv_tokens: 262_144,
    step: StepTime {
        base_us: 10_000.0,
        per_sequence_us: 1000.0,
        per_context_token_us: 0.0,
        per_prefill_token_us: 0.0,
    },
};

/// For tests: fast, four slots, and a KV cache that a few long requests fill.
const SMALL: Profile = Profile {
    max_num_seqs: 4,
    max_num_batched_tokens: 256,
    max_model_len: 1024,
    kv_tokens: 2048,
    step: StepTime {
        base_us: 2000.0,
        per_sequence_us: 100.0,
        per_context_token_us: 0.1,
        per_prefill_token_us: 5.0,
    },
};

// === impl Profile ===

impl Profile {
    /// The names of the built-in profiles.
    pub const NAMES: &'static [&'static str] = &[
        "llama-8b-h100",
        "llama-70b-8xh100",
        "llama-8b-l40s",
        "mock-16",
        "small",
    ];

    /// The built-in profile of a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "llama-8b-h100" => Some(LLAMA_8B_H100),
            "llama-70b-8xh100" => Some(LLAMA_70B_8XH100),
            "llama-8b-l40s" => Some(LLAMA_8B_L40S),
            "mock-16" => Some(MOCK_16),
            "small" => Some(SMALL),
            _ => None,
        }
    }

    /// The built-in profile of a name, else the one in the file of that path.
    ///
    /// # Errors
    /// There is neither, or the file isn't a profile that an engine could have.
    pub fn load(name_or_path: &str) -> Result<Self, ProfileError> {
        if let Some(profile) = Self::named(name_or_path) {
            return Ok(profile);
        }
        let path = name_or_path.to_owned();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(ProfileError::Unknown { name: path });
            }
            Err(source) => return Err(ProfileError::Unreadable { path, source }),
        };
        let profile: Self =
            serde_yaml::from_str(&text).map_err(|error| ProfileError::Malformed {
                path,
                reason: error.to_string(),
            })?;
        profile.check()?;
        Ok(profile)
    }

    /// Whether an engine could be like this.
    ///
    /// # Errors
    /// What to change.
    pub fn check(&self) -> Result<(), ProfileError> {
        let step = &self.step;
        let parts = [
            step.base_us,
            step.per_sequence_us,
            step.per_context_token_us,
            step.per_prefill_token_us,
        ];
        let impossible = if self.max_num_seqs == 0 {
            "maxNumSeqs must be at least 1"
        } else if self.max_model_len < 2 {
            "maxModelLen must be at least 2: one token of prompt and one of output"
        } else if self.max_num_batched_tokens < self.max_num_seqs as u64 {
            "maxNumBatchedTokens must be at least maxNumSeqs"
        } else if self.kv_tokens / BLOCK_TOKENS < self.max_model_len.div_ceil(BLOCK_TOKENS) {
            "kvTokens must hold maxModelLen in blocks of 16"
        } else if parts.iter().any(|us| !us.is_finite() || *us < 0.0) {
            "the times of a step must not be negative"
        } else if step.base_us < 1.0 {
            "step.baseUs must be at least 1"
        } else {
            return Ok(());
        };
        Err(ProfileError::Impossible(impossible))
    }

    /// The same engine, `times` as fast.
    pub fn faster(mut self, times: f64) -> Self {
        self.step.base_us /= times;
        self.step.per_sequence_us /= times;
        self.step.per_context_token_us /= times;
        self.step.per_prefill_token_us /= times;
        self
    }

    /// Blocks of the KV cache.
    pub fn kv_blocks(&self) -> u64 {
        self.kv_tokens / BLOCK_TOKENS
    }
}

// === impl StepTime ===

impl StepTime {
    /// How long a step with this load takes.
    pub fn of(&self, load: StepLoad) -> Duration {
        let us = self.base_us
            + self.per_sequence_us * load.sequences as f64
            + self.per_context_token_us * load.context_tokens as f64
            + self.per_prefill_token_us * load.prefill_tokens as f64;
        Duration::from_nanos((us * 1000.0) as u64)
    }
}
