use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn engine(profile: &str, policy: SchedulingPolicy) -> Engine {
    let profile = Profile::named(profile).expect("it is built in");
    Engine::new(profile, policy).expect("it is right")
}

fn prompt(id: u64, prompt_tokens: u64, output_tokens: u64) -> Prompt {
    Prompt {
        id: SequenceId(id),
        prompt_tokens,
        cached_tokens: 0,
        output_tokens,
        priority: 0,
    }
}

/// Lets the engine run until it has nothing left to do.
fn run_out(engine: &mut Engine, events: &mut Vec<Event>) -> Duration {
    let mut now = Duration::ZERO;
    while let Some(at) = engine.next_at() {
        now = at;
        engine.advance(now, events);
    }
    now
}

fn started(events: &[Event]) -> Vec<u64> {
    let ids = events.iter().filter_map(|event| match event {
        Event::Started { id, .. } => Some(id.0),
        _ => None,
    });
    ids.collect()
}

/// The mean time between tokens of so many sequences that all have about `context` tokens.
fn step_ms(sequences: u64, context: u64) -> f64 {
    // The table is of the step alone: no prefill in it, and as much KV as it takes.
    let mut profile = Profile::named("llama-8b-h100").expect("it is built in");
    profile.kv_tokens = 8_000_000;
    profile.max_num_batched_tokens = 8_000_000;
    let mut engine = Engine::new(profile, SchedulingPolicy::Fcfs).expect("it is right");
    let mut events = Vec::new();
    for id in 0..sequences {
        let request = prompt(id, context - 4, 8);
        engine
            .submit(request, Duration::ZERO, &mut events)
            .expect("it fits");
    }
    run_out(&mut engine, &mut events);
    let gaps: Vec<f64> = events
        .iter()
        .filter_map(|event| match event {
            // The first request starts a step alone; its second token shares the others' prefill.
            Event::Token { number, after, .. } if *number > 2 => Some(after.as_secs_f64() * 1e3),
            _ => None,
        })
        .collect();
    gaps.iter().sum::<f64>() / gaps.len() as f64
}

/// Llama-3.1-8B in bf16 on an H100, decode only, as BLIS computes it.
#[test]
fn step_time_follows_sequences_times_context() {
    let sequences = [1, 8, 32, 64, 128, 256];
    let table = [
        (256, [7.7, 7.9, 8.5, 9.2, 10.8, 13.8]),
        (1024, [7.8, 8.3, 10.3, 13.0, 18.2, 28.8]),
        (4096, [8.0, 10.2, 17.8, 27.9, 48.2, 88.7]),
        (16384, [8.9, 17.7, 47.8, 87.9, 168.0, 328.0]),
    ];
    for (context, row) in table {
        for (sequences, wanted) in sequences.into_iter().zip(row) {
            let got = step_ms(sequences, context);
            assert!(
                (got / wanted - 1.0).abs() < 0.05,
                "{sequences} sequences of {context} tokens: {got} ms instead of {wanted} ms"
            );
        }
    }
}

#[test]
fn a_prefill_stalls_the_tokens_that_share_its_step() {
    let mut engine = engine("llama-8b-h100", SchedulingPolicy::Fcfs);
    let mut events = Vec::new();
    let at = Duration::from_millis;
    engine
        .submit(prompt(0, 100, 1000), at(0), &mut events)
        .unwrap();
    engine.advance(at(500), &mut events);
    events.clear();
    engine
        .submit(prompt(1, 8000, 10), at(500), &mut events)
        .unwrap();
    engine.advance(at(1000), &mut events);
    let worst = events
        .iter()
        .filter_map(|event| match event {
            Event::Token { id, after, .. } if id.0 == 0 => Some(*after),
            _ => None,
        })
        .max()
        .unwrap();
    // 7.66 ms + 8000 tokens of 32 µs each.
    assert!(worst > at(255) && worst < at(275), "{worst:?}");
}

#[test]
fn a_long_prompt_is_prefilled_in_chunks_beside_running_requests() {
    let mut engine = engine("small", SchedulingPolicy::Fcfs);
    let mut events = Vec::new();
    engine
        .submit(prompt(0, 10, 50), Duration::ZERO, &mut events)
        .unwrap();
    engine.advance(Duration::from_millis(20), &mut events);
    events.clear();
    engine
        .submit(prompt(1, 800, 1), Duration::from_millis(20), &mut events)
        .unwrap();
    run_out(&mut engine, &mut events);
    let long = events
        .iter()
        .position(|e| matches!(e, Event::Finished { id, .. } if id.0 == 1))
        .expect("it is finished");
    let beside = events[..long]
        .iter()
        .filter(|e| matches!(e, Event::Token { id, .. } if id.0 == 0))
        .count();
    // 800 tokens take four steps of at most 256 tokens, one of which is the other's.
    assert!((4..=6).contains(&beside), "{beside} tokens");
    let chunks = events[..long].iter().filter_map(|event| match event {
        Event::Step { load, .. } => Some(load.prefill_tokens),
        _ => None,
    });
    assert_eq!(chunks.filter(|tokens| *tokens > 0).max(), Some(255));
}

#[test]
fn first_come_is_first_served_whatever_the_priorities() {
    let mut engine = engine("small", SchedulingPolicy::Fcfs);
    let mut events = Vec::new();
    for id in 0..12 {
        let mut request = prompt(id, 10, 5);
        request.priority = -(id as i64);
        engine.submit(request, Duration::ZERO, &mut events).unwrap();
    }
    run_out(&mut engine, &mut events);
    assert_eq!(started(&events), (0..12).collect::<Vec<_>>());
}

#[test]
fn priority_orders_the_queue_and_takes_no_seat_from_a_running_request() {
    let mut engine = engine("small", SchedulingPolicy::Priority);
    let mut events = Vec::new();
    for id in 0..8 {
        let mut request = prompt(id, 10, 20);
        request.priority = 5;
        engine.submit(request, Duration::ZERO, &mut events).unwrap();
    }
    let later = Duration::from_millis(10);
    for id in 8..10 {
        let mut request = prompt(id, 10, 20);
        request.priority = 9 - id as i64;
        engine.submit(request, later, &mut events).unwrap();
    }
    run_out(&mut engine, &mut events);
    assert_eq!(started(&events), [0, 1, 2, 3, 9, 8, 4, 5, 6, 7]);
    let preempted = events.iter().any(|e| matches!(e, Event::Preempted { .. }));
    assert!(!preempted);
}

#[test]
fn a_full_cache_evicts_the_last_started_which_still_gets_all_its_tokens() {
    let mut engine = engine("small", SchedulingPolicy::Fcfs);
    let mut events = Vec::new();
    // Four of 800 tokens in the end, in a cache of 2048.
    for id in 0..4 {
        engine
            .submit(prompt(id, 400, 400), Duration::ZERO, &mut events)
            .unwrap();
    }
    run_out(&mut engine, &mut events);
    let first = events.iter().find_map(|event| match event {
        Event::Preempted { id } => Some(id.0),
        _ => None,
    });
    assert_eq!(first, Some(3));
    for wanted in 0..4 {
        let tokens = events
            .iter()
            .filter(|e| matches!(e, Event::Token { id, .. } if id.0 == wanted))
            .count();
        assert_eq!(tokens, 400);
    }
}

#[test]
fn what_can_never_fit_is_refused() {
    let mut engine = engine("small", SchedulingPolicy::Fcfs);
    let mut events = Vec::new();
    for (prompt_tokens, output_tokens) in [(1000, 25), (u64::MAX, 1), (0, 5), (5, 0)] {
        let request = prompt(0, prompt_tokens, output_tokens);
        engine
            .submit(request, Duration::ZERO, &mut events)
            .expect_err("it can't be served");
    }
    engine
        .submit(prompt(1, 1000, 24), Duration::ZERO, &mut events)
        .expect("it fits to the token");
}

#[test]
fn profiles_that_contradict_themselves_are_refused() {
    for name in Profile::NAMES {
        Profile::load(name).expect("built-in profiles are right");
    }
    type Change = fn(&mut Profile);
    let changes: [Change; 5] = [
        |p| p.max_num_seqs = 0,
        |p| p.max_num_batched_tokens = 3,
        |p| p.kv_tokens = 1000,
        |p| p.step.per_sequence_us = -1.0,
        |p| p.step.base_us = 0.0,
    ];
    for change in changes {
        let mut profile = Profile::named("small").unwrap();
        change(&mut profile);
        assert!(Engine::new(profile, SchedulingPolicy::Fcfs).is_err());
    }
}

#[derive(Clone, Debug)]
enum Action {
    Submit {
        prompt: u64,
        output: u64,
        priority: i64,
    },
    Abort {
        back: u64,
    },
    Wait {
        us: u64,
    },
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        4 => (1..600u64, 1..400u64, -2..3i64)
            .prop_map(|(prompt, output, priority)| Action::Submit { prompt, output, priority }),
        1 => (1..12u64).prop_map(|back| Action::Abort { back }),
        3 => (1..200_000u64).prop_map(|us| Action::Wait { us }),
    ];
    prop::collection::vec(action, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever is submitted and dropped: nobody gets a token more or less than asked for, each
    /// request ends once, seats and blocks are never oversold, and all come back.
    #[test]
    fn requests_end_once_with_their_tokens_and_seats_are_never_oversold(
        actions in actions(),
        by_priority in any::<bool>(),
    ) {
        let policy = if by_priority { SchedulingPolicy::Priority } else { SchedulingPolicy::Fcfs };
        let mut engine = engine("small", policy);
        let mut events = Vec::new();
        let mut now = Duration::ZERO;
        let mut wanted = HashMap::new();
        let mut aborted = HashSet::new();
        let mut next = 0;
        for action in actions {
            match action {
                Action::Submit { prompt: prompt_tokens, output, priority } => {
                    let request = Prompt { priority, ..prompt(next, prompt_tokens, output) };
                    engine.submit(request, now, &mut events).expect("it fits");
                    wanted.insert(next, output);
                    next += 1;
                }
                Action::Abort { back } => {
                    if let Some(id) = next.checked_sub(back) {
                        engine.abort(SequenceId(id), now, &mut events);
                        aborted.insert(id);
                    }
                }
                Action::Wait { us } => {
                    now += Duration::from_micros(us);
                    engine.advance(now, &mut events);
                }
            }
            prop_assert!(engine.running() <= 4);
            prop_assert!((0.0..=1.0).contains(&engine.kv_usage()));
        }
        while let Some(at) = engine.next_at() {
            prop_assert!(at >= now, "time goes on");
            now = at;
            engine.advance(now, &mut events);
            prop_assert!(engine.running() <= 4);
        }
        prop_assert_eq!(engine.running() + engine.waiting(), 0);
        prop_assert_eq!(engine.kv_usage(), 0.0);

        let mut tokens: HashMap<u64, u64> = HashMap::new();
        let mut finished = HashSet::new();
        let mut generated_in_steps = 0;
        for event in events {
            match event {
                Event::Token { id, number, .. } => {
                    let count = tokens.entry(id.0).or_default();
                    *count += 1;
                    prop_assert_eq!(*count, number);
                    prop_assert!(!finished.contains(&id.0), "no token after the end");
                }
                Event::Finished { id, .. } => {
                    prop_assert!(finished.insert(id.0), "it ends once");
                    prop_assert_eq!(tokens.get(&id.0), wanted.get(&id.0));
                }
                Event::Step { generated, .. } => generated_in_steps += generated,
                Event::Started { .. } | Event::Preempted { .. } => {}
            }
        }
        prop_assert_eq!(tokens.values().sum::<u64>(), generated_in_steps);
        for id in wanted.keys() {
            prop_assert!(finished.contains(id) || aborted.contains(id), "{} never ended", id);
        }
    }
}
