//! Concurrency limiters of others, with the constants of their sources.

mod aimd;
mod envoy;
mod gradient2;
mod vegas;

pub(super) use aimd::Aimd;
pub(super) use envoy::Envoy;
pub(super) use gradient2::Gradient2;
pub(super) use vegas::Vegas;

/// What was seen in one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Of the samples.
    pub mean_ms: f64,
    /// Of the samples.
    pub median_ms: f64,
    /// The most that were in flight.
    pub in_flight: f64,
}

/// How many requests may be in flight.
pub(super) trait Limiter {
    fn limit(&self) -> f64;
    fn observe(&mut self, window: Window);
}

/// A limit that never moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed(pub f64);

impl Limiter for Fixed {
    fn limit(&self) -> f64 {
        self.0
    }

    fn observe(&mut self, _window: Window) {}
}

#[cfg(test)]
mod tests;
