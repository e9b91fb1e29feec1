//! The buckets of the engines' histograms.

use crate::engine::version::Kind;

/// Upper bounds, in seconds or tokens.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub ttft: Vec<f64>,
    pub token_gap: Vec<f64>,
    pub request_time: Vec<f64>,
    pub request_tokens: Vec<f64>,
    pub step_tokens: Vec<f64>,
}

/// Of vLLM 0.32.
const VLLM_TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const VLLM_TOKEN_GAP: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const VLLM_REQUEST_TIME: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];
const VLLM_REQUEST_TOKENS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0,
    20_000.0,
];
const VLLM_STEP_TOKENS: &[f64] = &[
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
];

const SGLANG_TTFT: &[f64] = &[
    0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0,
    400.0,
];
const SGLANG_TOKEN_GAP: &[f64] = &[
    0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2,
    0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0,
];
const SGLANG_REQUEST_TIME: &[f64] = &[
    0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0,
    400.0, 600.0, 1200.0, 1800.0, 2400.0,
];

// === impl Bounds ===

impl Bounds {
    pub fn of(kind: Kind, max_model_len: u64) -> Self {
        let own = |bounds: &[f64]| bounds.to_vec();
        match kind {
            Kind::Vllm => Self {
                ttft: own(VLLM_TTFT),
                token_gap: own(VLLM_TOKEN_GAP),
                request_time: own(VLLM_REQUEST_TIME),
                request_tokens: own(VLLM_REQUEST_TOKENS),
                step_tokens: own(VLLM_STEP_TOKENS),
            },
            // 35 bounds from 0.15 ms up, each half as much again; and the hundredths of the
            // longest request.
            Kind::Tgi => {
                let times: Vec<f64> = (1..=35).map(|k| 1e-4 * 1.5_f64.powi(k)).collect();
                let hundredth = max_model_len as f64 / 100.0;
                let tokens: Vec<f64> = (1..=100).map(|k| hundredth * f64::from(k)).collect();
                Self {
                    ttft: times.clone(),
                    token_gap: times.clone(),
                    request_time: times,
                    request_tokens: tokens.clone(),
                    step_tokens: tokens,
                }
            }
            Kind::Sglang => Self {
                ttft: own(SGLANG_TTFT),
                token_gap: own(SGLANG_TOKEN_GAP),
                request_time: own(SGLANG_REQUEST_TIME),
                request_tokens: own(VLLM_REQUEST_TOKENS),
                step_tokens: own(VLLM_STEP_TOKENS),
            },
        }
    }
}
