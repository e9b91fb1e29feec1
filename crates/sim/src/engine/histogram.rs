//! A histogram with fixed bounds, as the Prometheus client of Python prints it.

use std::fmt::Write;

#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// One per bound, and one for what lies above all.
    counts: Vec<u64>,
    sum: f64,
}

// === impl Histogram ===

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    pub fn observe(&mut self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts[at] += 1;
        self.sum += value;
    }

    /// Appends its lines. `labels` are those of every line, without braces, and sort around `le`.
    pub fn write(&self, name: &str, (before, after): (&str, &str), page: &mut String) {
        let mut total = 0;
        let bounds = self.bounds.iter().map(|bound| format!("{bound:?}"));
        for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&self.counts) {
            total += count;
            let _ = writeln!(
                page,
                "{name}_bucket{{{before},le=\"{bound}\",{after}}} {total}.0"
            );
        }
        let _ = writeln!(page, "{name}_count{{{before},{after}}} {total}.0");
        let _ = writeln!(page, "{name}_sum{{{before},{after}}} {:?}", self.sum);
    }
}
