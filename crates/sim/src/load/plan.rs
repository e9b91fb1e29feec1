//! Which requests a scenario offers, and when: all decided before the first one is sent.
//!
//! A plan depends on the scenario, the seed and nothing else, least of all on how the requests
//! fare; so two systems that are compared get the same ones at the same times. Each source of
//! arrivals draws from a generator of its own: another class doesn't change it.

use super::scenario::{Arrivals, Bursts, ClassLoad, Length, Scenario};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::time::Duration;

/// One request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// When, since the start.
    pub at: Duration,
    /// The place of its class in the scenario.
    pub class: usize,
    /// The place of its tenant in the class; `None` where the class has no tenants.
    pub tenant: Option<usize>,
    /// Which one of its class it is, from 0. Requests of a class go to the targets in turn.
    pub number: usize,
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Tokens of its answer.
    pub output_tokens: u64,
}

/// The 95th percentile of the standard normal distribution.
const Z95: f64 = 1.6449;

/// The requests of a scenario in the order of their arrival.
pub fn plan(scenario: &Scenario, seed: u64) -> Vec<Offered> {
    let mut all = Vec::new();
    for (at, class) in scenario.classes.iter().enumerate() {
        let mut requests = Vec::new();
        for (source, arrivals) in class.arrivals.iter().enumerate() {
            let mut random = generator(seed, at, source);
            for time in times(arrivals, scenario.duration, &mut random) {
                requests.push(offered(class, at, time, &mut random));
            }
        }
        requests.sort_by_key(|request| request.at);
        for (number, request) in requests.iter_mut().enumerate() {
            request.number = number;
        }
        all.extend(requests);
    }
    // What arrives in one moment takes turns between the classes.
    all.sort_by_key(|request| (request.at, request.number));
    all
}

fn generator(seed: u64, class: usize, source: usize) -> StdRng {
    let mut bytes = [0; 32];
    let parts = [seed, class as u64, source as u64];
    for (place, part) in bytes.chunks_exact_mut(8).zip(parts) {
        place.copy_from_slice(&part.to_le_bytes());
    }
    StdRng::from_seed(bytes)
}

fn offered(class: &ClassLoad, at: usize, time: Duration, random: &mut StdRng) -> Offered {
    let shares: f64 = class.tenants.iter().map(|tenant| tenant.share).sum();
    let mut left = random.random_range(0.0..1.0) * shares;
    let tenant = class.tenants.iter().position(|tenant| {
        left -= tenant.share;
        left < 0.0
    });
    Offered {
        at: time,
        class: at,
        tenant: tenant.or(class.tenants.len().checked_sub(1)),
        number: 0,
        prompt_tokens: length(class.prompt_tokens, random),
        output_tokens: length(class.output_tokens, random),
    }
}

fn length(length: Length, random: &mut StdRng) -> u64 {
    match length {
        Length::Fixed(tokens) => tokens,
        Length::Uniform { from, to } => random.random_range(from..=to),
        Length::LogNormal { median, p95 } => {
            let sigma = (p95 / median).ln() / Z95;
            let tokens = median * (sigma * normal(random)).exp();
            tokens.clamp(1.0, 4.0 * p95).round() as u64
        }
    }
}

/// A sample of the standard normal distribution (Box and Muller).
fn normal(random: &mut StdRng) -> f64 {
    let radius = (-2.0 * unit(random).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(random)).cos()
}

/// Above 0, so that it has a logarithm, and at most 1.
fn unit(random: &mut StdRng) -> f64 {
    1.0 - random.random_range(0.0..1.0)
}

fn times(arrivals: &Arrivals, duration: Duration, random: &mut StdRng) -> Vec<Duration> {
    match *arrivals {
        Arrivals::AtOnce { count, at } => {
            let at = at.unwrap_or_default();
            let count = if at < duration { count } else { 0 };
            vec![at; count as usize]
        }
        Arrivals::Poisson {
            per_second,
            from,
            until,
            count,
            bursts,
        } => {
            let until = until.unwrap_or(duration).min(duration).as_secs_f64();
            let count = count.map_or(usize::MAX, |count| count as usize);
            let highest = bursts.map_or(1.0, |bursts| bursts.times.max(1.0));
            let mut time = from.unwrap_or_default().as_secs_f64();
            let mut times = Vec::new();
            // Arrivals at the highest rate, of which each stays with the probability that makes
            // the rate of its moment.
            while times.len() < count {
                time -= unit(random).ln() / (per_second * highest);
                if time >= until {
                    break;
                }
                let factor = bursts.map_or(1.0, |bursts| factor(&bursts, time));
                if random.random_range(0.0..highest) < factor {
                    times.push(Duration::from_secs_f64(time));
                }
            }
            times
        }
    }
}

fn factor(bursts: &Bursts, time: f64) -> f64 {
    let every = bursts.every.as_secs_f64();
    if time >= every && time % every < bursts.lasting.as_secs_f64() {
        bursts.times
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(arrivals: &str) -> Scenario {
        let text = format!(
            "
name: test
about: test
duration: 1000s
drain: 1s
classes:
  - name: chat
    promptTokens: {{median: 200, p95: 800}}
    outputTokens: {{from: 10, to: 20}}
    tenants: [{{name: a, share: 3}}, {{name: b}}]
    arrivals: [{arrivals}]
"
        );
        Scenario::parse("test", &text).unwrap()
    }

    #[test]
    fn the_same_seed_offers_the_same_requests_and_another_seed_others() {
        for name in Scenario::names() {
            let scenario = Scenario::load(name).unwrap();
            assert_eq!(plan(&scenario, 7), plan(&scenario, 7));
            assert_ne!(plan(&scenario, 7), plan(&scenario, 8));
        }
    }

    #[test]
    fn a_further_class_changes_nothing_for_those_before_it() {
        let one = scenario("poisson: {perSecond: 2}");
        let mut two = one.clone();
        two.classes.push(ClassLoad {
            name: "batch".to_owned(),
            ..one.classes[0].clone()
        });
        let of_first: Vec<_> = plan(&two, 1).into_iter().filter(|r| r.class == 0).collect();
        assert_eq!(of_first, plan(&one, 1));
    }

    #[test]
    fn arrivals_come_at_the_rate_and_in_the_lengths_asked_for() {
        let requests = plan(&scenario("poisson: {perSecond: 10}"), 3);
        let count = requests.len() as f64;
        assert!((9_700.0..10_300.0).contains(&count), "{count}");
        assert!(requests.is_sorted_by_key(|request| request.at));
        // Poisson: the gaps vary as much as they last.
        let gaps: Vec<f64> = requests
            .windows(2)
            .map(|pair| (pair[1].at - pair[0].at).as_secs_f64())
            .collect();
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
        assert!((0.9..1.1).contains(&(variance.sqrt() / mean)));

        let share = |wanted: &dyn Fn(&Offered) -> bool| {
            requests.iter().filter(|r| wanted(r)).count() as f64 / count
        };
        let first_tenant = share(&|r| r.tenant == Some(0));
        assert!((0.73..0.77).contains(&first_tenant), "{first_tenant}");
        let short = share(&|r| r.prompt_tokens <= 200);
        assert!((0.48..0.52).contains(&short), "{short}");
        let long = share(&|r| r.prompt_tokens > 800);
        assert!((0.04..0.06).contains(&long), "{long}");
        assert!(
            requests
                .iter()
                .all(|r| (10..=20).contains(&r.output_tokens))
        );
    }

    #[test]
    fn bursts_multiply_the_rate_while_they_last() {
        let arrivals = "poisson: {perSecond: 10, bursts: {every: 10s, lasting: 2s, times: 5}}";
        let requests = plan(&scenario(arrivals), 1);
        let (in_bursts, outside): (Vec<_>, Vec<_>) = requests
            .iter()
            .map(|request| request.at.as_secs_f64())
            .partition(|at| *at >= 10.0 && at % 10.0 < 2.0);
        // 99 bursts of 2 s at 50/s; the rest of 1000 s at 10/s.
        let in_bursts = in_bursts.len() as f64 / (99.0 * 2.0);
        let outside = outside.len() as f64 / (1000.0 - 99.0 * 2.0);
        assert!((48.0..52.0).contains(&in_bursts), "{in_bursts}");
        assert!((9.5..10.5).contains(&outside), "{outside}");
    }

    #[test]
    fn classes_that_arrive_in_one_moment_take_turns() {
        let mut scenario = scenario("atOnce: {count: 3}");
        let second = ClassLoad {
            name: "batch".to_owned(),
            ..scenario.classes[0].clone()
        };
        scenario.classes.push(second);
        let classes: Vec<usize> = plan(&scenario, 1).iter().map(|r| r.class).collect();
        assert_eq!(classes, [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn counts_and_times_bound_a_source() {
        let at = |arrivals| plan(&scenario(arrivals), 1);
        assert_eq!(at("poisson: {perSecond: 2, count: 100}").len(), 100);
        let some = at("poisson: {perSecond: 50, from: 10s, until: 20s}");
        assert!(some.iter().all(|r| (10..20).contains(&r.at.as_secs())));
        assert!(some.len() > 400);
        let burst = at("atOnce: {count: 200, at: 5s}");
        assert_eq!(burst.len(), 200);
        assert!(burst.iter().all(|r| r.at == Duration::from_secs(5)));
        assert!(burst.iter().enumerate().all(|(at, r)| r.number == at));
    }
}
