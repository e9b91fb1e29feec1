//! From values to places on an axis, and the ticks beside it.

/// How values become places.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    lo: f64,
    hi: f64,
    is_log: bool,
    /// Where to write what.
    pub ticks: Vec<(f64, String)>,
}

/// Steps of time, in seconds, that people count in.
const STEPS: [f64; 20] = [
    0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
    3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0,
];
const DAY: f64 = 86_400.0;
const MOST_TICKS: f64 = 6.0;

// === impl Scale ===

impl Scale {
    /// From nothing to a bit more than `most`.
    pub fn amounts(most: f64, name: impl Fn(f64) -> String) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        let raw = most / 4.0;
        let power = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = step.into_iter().find(|step| *step >= raw);
        let step = step.unwrap_or(10.0 * power);
        let count = (most / step).ceil().max(1.0);
        let ticks = (0..=count as u32).map(|at| f64::from(at) * step);
        Self {
            lo: 0.0,
            hi: count * step,
            is_log: false,
            ticks: ticks.map(|value| (value, name(value))).collect(),
        }
    }

    /// From 0 to 100 %.
    pub fn percent() -> Self {
        let ticks = (0..=4).map(|at| f64::from(at) * 0.25);
        Self {
            lo: 0.0,
            hi: 1.0,
            is_log: false,
            ticks: ticks
                .map(|share| (share, format!("{:.0} %", share * 100.0)))
                .collect(),
        }
    }

    /// Milliseconds of which some are a thousand times others.
    pub fn times(least: f64, most: f64) -> Self {
        let least = least.max(0.01);
        let most = most.max(least * 2.0);
        let first = least.log10().floor() as i32;
        let last = most.log10().ceil() as i32;
        // So that names don't touch each other.
        let factors: &[f64] = match last - first {
            ..=1 => &[1.0, 2.0, 5.0],
            2 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let mut values: Vec<f64> = (first..=last)
            .flat_map(|power| {
                factors
                    .iter()
                    .map(move |factor| factor * 10_f64.powi(power))
            })
            .collect();
        // From the last tick that is below all to the first that is above all.
        let below = values.iter().rposition(|value| *value <= least * 1.0001);
        values.drain(..below.unwrap_or(0));
        let above = values.iter().position(|value| *value >= most * 0.9999);
        values.truncate(above.map_or(values.len(), |at| at + 1));
        Self {
            lo: values.first().copied().unwrap_or(least),
            hi: values.last().copied().unwrap_or(most),
            is_log: true,
            ticks: values
                .iter()
                .enumerate()
                .map(
                    |(at, ms)| match values.len() > 5 && (values.len() - at).is_multiple_of(2) {
                        // Each second line goes without a name: names grow with their numbers.
                        true => (*ms, String::new()),
                        false => (*ms, super::text::time(*ms)),
                    },
                )
                .collect(),
        }
    }

    /// Seconds since the start.
    pub fn clock(end: f64) -> Self {
        let end = end.max(0.05);
        let step = STEPS.iter().copied().find(|step| end / step <= MOST_TICKS);
        let step = step.unwrap_or_else(|| (end / DAY / MOST_TICKS).ceil() * DAY);
        let ticks = (0..=(end / step) as u32).map(|at| f64::from(at) * step);
        Self {
            lo: 0.0,
            hi: end,
            is_log: false,
            ticks: ticks
                .map(|seconds| (seconds, super::text::moment(seconds, step)))
                .collect(),
        }
    }

    /// 0 at the low end, 1 at the high one.
    pub fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.lo, self.hi);
        match self.is_log {
            true => (value / self.lo).ln() / (self.hi / self.lo).ln(),
            false => (value - self.lo) / (self.hi - self.lo),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_few_and_around_the_values() {
        let amounts = Scale::amounts(37.0, |value| value.to_string());
        let ticks: Vec<f64> = amounts.ticks.iter().map(|tick| tick.0).collect();
        assert_eq!(ticks, [0.0, 10.0, 20.0, 30.0, 40.0]);
        let times = Scale::times(17.0, 62_000.0);
        let names: Vec<&str> = times.ticks.iter().map(|tick| &*tick.1).collect();
        assert_eq!(names, ["10 ms", "100 ms", "1 s", "10 s", "100 s"]);
        let narrow = Scale::times(22.0, 31.0);
        let names: Vec<&str> = narrow.ticks.iter().map(|tick| &*tick.1).collect();
        assert_eq!(names, ["20 ms", "50 ms"]);
        let middle = Scale::times(12.0, 700.0);
        let names: Vec<&str> = middle.ticks.iter().map(|tick| &*tick.1).collect();
        assert_eq!(names, ["10 ms", "30 ms", "100 ms", "300 ms", "1 s"]);
        assert!((times.place(1000.0) - 0.5).abs() < 1e-9);
        let wide = Scale::times(12.0, 7e6);
        let names: Vec<&str> = wide.ticks.iter().map(|tick| &*tick.1).collect();
        assert_eq!(names, ["10 ms", "", "1 s", "", "100 s", "", "10000 s"]);
        for end in [0.3, 20.0, 61.0, 3600.0, 86_400.0, 1e7] {
            let clock = Scale::clock(end);
            assert!(
                (2..=8).contains(&clock.ticks.len()),
                "{end}: {:?}",
                clock.ticks
            );
        }
        let day = Scale::clock(86_400.0);
        assert_eq!(day.ticks[1].1, "6 h");
    }
}
