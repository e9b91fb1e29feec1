use super::*;

fn window(ms: f64) -> Window {
    Window {
        mean_ms: ms,
        median_ms: ms,
        in_flight: 1e9,
    }
}

fn after(limiter: &mut dyn Limiter, windows: usize, ms: f64) -> f64 {
    for _ in 0..windows {
        limiter.observe(window(ms));
    }
    limiter.limit()
}

#[test]
fn aimd_grows_by_one_and_falls_by_a_tenth() {
    let mut aimd = Aimd::new(25.0);
    assert_eq!(after(&mut aimd, 80, 20.0), 100.0);
    assert_eq!(after(&mut aimd, 1, 30.0), 90.0);
    assert_eq!(after(&mut aimd, 100, 30.0), 1.0);
}

#[test]
fn gradient2_grows_while_nothing_changes_and_falls_when_it_gets_slow() {
    let mut gradient = Gradient2::new();
    // 0.2 × the queue of 4 each window.
    assert!((after(&mut gradient, 10, 10.0) - 28.0).abs() < 1e-9);
    let before = after(&mut gradient, 50, 10.0);
    assert!(after(&mut gradient, 5, 40.0) < before);
}

#[test]
fn vegas_grows_at_its_least_time_and_falls_at_twice_it() {
    let mut vegas = Vegas::new();
    // The first window is the least time, the second has no queue: beta is 6.
    assert_eq!(after(&mut vegas, 2, 10.0), 26.0);
    assert_eq!(after(&mut vegas, 1, 20.0), 25.0);
}

#[test]
fn envoy_settles_where_the_root_balances_the_gradient() {
    let mut envoy = Envoy::new(25.0);
    let grown = after(&mut envoy, 3, 10.0);
    assert!(grown > 30.0, "{grown}");
    assert!(after(&mut envoy, 20, 50.0) < 6.0);
}
