//! How a time is distributed over requests, in a few points.

use serde::Serialize;

/// The shares at which a curve is drawn, in thousandths: denser where tails are.
const SHARES: [usize; 27] = [
    0, 10, 25, 50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700, 750, 800, 850,
    900, 925, 950, 975, 990, 999, 1000,
];

/// Which share of the requests had at most which time: `[milliseconds, share]`, rising in both.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Curve(pub Vec<[f64; 2]>);

/// The curves of a class.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Curves {
    /// To the first token, over all requests that were offered: those without a first token are
    /// what the curve lacks to 1.
    pub ttft_ms: Curve,
    /// Between tokens, over the answers of two and more tokens.
    pub tpot_ms: Curve,
    /// To the end of the answer, over all requests that were offered.
    pub latency_ms: Curve,
}

// === impl Curve ===

impl Curve {
    /// Of values in any order, of which there could have been `of`.
    pub fn new(mut values: Vec<f64>, of: usize) -> Self {
        values.sort_by(f64::total_cmp);
        Self::sorted(&values, of)
    }

    /// Of values in rising order.
    pub fn sorted(values: &[f64], of: usize) -> Self {
        let of = of.max(values.len()) as f64;
        let mut points: Vec<[f64; 2]> = Vec::new();
        for thousandths in SHARES {
            let rank = (values.len() * thousandths).div_ceil(1000).max(1);
            let Some(value) = values.get(rank - 1) else {
                break;
            };
            let share = if thousandths == 0 {
                0.0
            } else {
                rank as f64 / of
            };
            let point = [rounded(*value), rounded(share)];
            match points.last_mut() {
                // Several shares of one value: the highest is what holds.
                Some(last) if last[0] == point[0] && last[1] > 0.0 => *last = point,
                _ => points.push(point),
            }
        }
        Self(points)
    }

    /// The time that this share has at most; `None`: fewer had any.
    pub fn at(&self, share: f64) -> Option<f64> {
        let at = self.0.iter().find(|point| point[1] >= share);
        at.map(|point| point[0])
    }
}

/// To a ten-thousandth: less would show in tails, more would only pretend.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_rises_to_the_share_that_had_a_value() {
        let values: Vec<f64> = (1..=900).rev().map(f64::from).collect();
        let curve = Curve::new(values, 1000);
        assert!(curve.0.is_sorted_by(|a, b| a[0] <= b[0] && a[1] <= b[1]));
        assert_eq!(curve.0.first(), Some(&[1.0, 0.0]));
        assert_eq!(curve.0.last(), Some(&[900.0, 0.9]));
        assert_eq!(curve.at(0.45), Some(450.0));
        assert_eq!(curve.at(0.95), None, "a tenth had none");
        assert!(curve.0.len() <= SHARES.len());
    }

    #[test]
    fn one_value_many_times_is_one_step_and_none_is_no_curve() {
        let curve = Curve::new(vec![5.0; 40], 40);
        assert_eq!(curve.0, [[5.0, 0.0], [5.0, 1.0]]);
        assert_eq!(Curve::new(Vec::new(), 10), Curve::default());
    }
}
