//! Values over time, in fewer slots.

/// A value for each slot of a width; `None`: there was none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub width_s: f64,
    pub values: Vec<Option<f64>>,
}

// === impl Series ===

impl Series {
    pub fn new(width_s: f64, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self {
            width_s,
            values: values.into_iter().collect(),
        }
    }

    /// The means over so many slots together that at most `most` are left.
    pub fn in_at_most(&self, most: usize) -> Self {
        let together = self.values.len().div_ceil(most).max(1);
        let means = self.values.chunks(together).map(|slots| {
            let there: Vec<f64> = slots.iter().copied().flatten().collect();
            let mean = there.iter().sum::<f64>() / there.len() as f64;
            (!there.is_empty()).then_some(mean)
        });
        Self::new(self.width_s * together as f64, means)
    }

    /// The values in the middle of their slots.
    pub fn points(&self) -> impl Iterator<Item = (f64, Option<f64>)> {
        let values = self.values.iter().enumerate();
        values.map(|(at, value)| ((at as f64 + 0.5) * self.width_s, *value))
    }

    pub fn present(&self) -> impl Iterator<Item = f64> + Clone {
        self.values.iter().copied().flatten()
    }

    pub fn most(&self) -> Option<f64> {
        self.present().reduce(f64::max)
    }

    pub fn least(&self) -> Option<f64> {
        self.present().reduce(f64::min)
    }

    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.present().sum();
        let count = self.present().count();
        (count > 0).then(|| sum / count as f64)
    }

    pub fn end_s(&self) -> f64 {
        self.width_s * self.values.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_slots_are_means_of_what_was_there() {
        let values = [Some(1.0), None, Some(3.0), Some(5.0), None, None, Some(7.0)];
        let series = Series::new(0.5, values);
        assert_eq!(
            series.in_at_most(4),
            Series::new(1.0, [Some(1.0), Some(4.0), None, Some(7.0)])
        );
        assert_eq!(series.in_at_most(100), series);
        assert_eq!(series.mean(), Some(4.0));
        assert_eq!(Series::new(1.0, []).in_at_most(3).values, []);
    }
}
