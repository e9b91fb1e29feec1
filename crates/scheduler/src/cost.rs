//! What a request costs the engine, in cost units: what fairness and shares are counted in.
//!
//! An output token takes an engine step of its own, a prompt token shares one with thousands: by
//! the step model of an 8B model on one GPU the ratio is 3 to 12, and price lists say 3 to 5.

/// Cost of one output token, in uncached prompt tokens.
const OUTPUT: f64 = 4.0;
/// Cost of a prompt token that the engine's prefix cache saved.
const CACHED: f64 = 0.1;

/// Cost of a prompt of which `cached` tokens were saved by the prefix cache.
pub(crate) fn prompt(tokens: u64, cached: u64) -> f64 {
    let cached = cached.min(tokens);
    (tokens - cached) as f64 + CACHED * cached as f64
}

/// Cost of output tokens.
pub(crate) fn output(tokens: u64) -> f64 {
    OUTPUT * tokens as f64
}
