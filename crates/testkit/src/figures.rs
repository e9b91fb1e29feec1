//! What a bench found, in numbers.

use serde_json::Value;

/// Percentiles by rank, each with its name (`("p99", 0.99)`), to two decimals.
pub fn figures(mut values: Vec<f64>, ranks: &[(&str, f64)]) -> Value {
    values.sort_by(f64::total_cmp);
    let rank = |share: f64| {
        let at = (values.len() as f64 * share).ceil() as usize;
        let value = values.get(at.max(1) - 1).copied().unwrap_or(f64::NAN);
        (value * 100.0).round() / 100.0
    };
    let all = ranks
        .iter()
        .map(|(name, share)| ((*name).to_owned(), rank(*share).into()));
    Value::Object(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_percentile_is_a_value_that_was_there() {
        let values = (1..=200).rev().map(f64::from).collect();
        let ranks = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];
        let found = figures(values, &ranks);
        assert_eq!(found, json!({"p50": 100.0, "p99": 198.0, "max": 200.0}));
        assert_eq!(figures(vec![7.126], &ranks)["p50"], 7.13);
    }
}
