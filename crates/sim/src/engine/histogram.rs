//! A histogram with fixed bounds, as Prometheus wants it.

#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bounds: Vec<f64>,
    /// One per bound, and one for what lies above all.
    counts: Vec<u64>,
    sum: f64,
}

// === impl Histogram ===

impl Histogram {
    pub fn new(bounds: &[f64]) -> Self {
        Self {
            bounds: bounds.to_vec(),
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    pub fn observe(&mut self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts[at] += 1;
        self.sum += value;
    }

    /// How many values lie at or below each bound; the last one, `None`, is above all.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let bounds = self.bounds.iter().map(|bound| Some(*bound));
        let mut total = 0;
        bounds
            .chain([None])
            .zip(&self.counts)
            .map(move |(bound, count)| {
                total += count;
                (bound, total)
            })
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum(&self) -> f64 {
        self.sum
    }
}
