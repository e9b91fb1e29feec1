//! The clock of a replay: from arrival to arrival and from step to step, whichever comes first.

use super::{
    arrivals::{Arrival, Source, SourceError},
    contestant::Contestant,
    front::{Asked, Came, Done, Front, Verdict},
    prefix_cache::PrefixCache,
    tally::{Completed, Tally, rounded},
};
use crate::{
    load::{EngineRun, Run, Slo},
    model::{Engine, Event, Profile, ProfileError, Prompt, SequenceId},
    report::Recorder,
};
use fairtide_scheduler::{Settings, Tier};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{collections::VecDeque, str::FromStr, time::Duration};

/// A front that asks to be woken for what is past is asked again this much later.
const LEAST_SLEEP: Duration = Duration::from_millis(1);
/// How often the limit is noted.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What limiters keep to where no class has an objective for the time between tokens.
const DEFAULT_TPOT: Duration = Duration::from_millis(25);

/// How pods share the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balancer {
    /// In turn.
    #[default]
    RoundRobin,
    /// To the pod with the fewest requests, queued and running.
    LeastConnections,
    /// To the one with fewer requests of two by chance.
    RandomTwo,
}

/// What a replay is like, beside its policy and its requests.
#[derive(Clone, Debug)]
pub struct Setup {
    /// For the report.
    pub name: String,
    /// The classes, and what Fairtide obeys.
    pub settings: Settings,
    /// The objectives of the classes, in their order.
    pub slos: Vec<Slo>,
    /// The engines.
    pub profile: Profile,
    /// How many there are; 0 counts as 1.
    pub replicas: usize,
    /// How they share the requests.
    pub balancer: Balancer,
    /// For everything that is left to chance.
    pub seed: u64,
}

struct Pod {
    engine: Engine,
    front: Box<dyn Front>,
    cache: PrefixCache,
    /// Queued and running.
    requests: usize,
    due: Option<Duration>,
}

/// A request that has not ended.
struct Live {
    arrival: Arrival,
    cached_tokens: u64,
    started: Option<Duration>,
    first_token: Option<Duration>,
    tokens: u64,
}

/// By their numbers, which are dense: the oldest that lives is first.
#[derive(Default)]
struct Requests {
    first: u64,
    all: VecDeque<Option<Live>>,
}

struct Replay<'a> {
    setup: &'a Setup,
    requests: Requests,
    tallies: Vec<Tally>,
    recorder: Recorder,
    /// When to look at the limit next.
    look_at: Duration,
    events: Vec<Event>,
    busy: Duration,
    /// Requests still arrive.
    in_window: bool,
}

/// Replays requests under a policy: the figures, and how many rows were no requests.
///
/// # Errors
/// The requests can't be read.
pub fn run(
    setup: &Setup,
    contestant: Contestant,
    mut source: Source,
) -> Result<(Run, u64), SourceError> {
    let slos = setup.slos.iter().filter_map(|slo| slo.tpot);
    let tpot_ms = slos.min().unwrap_or(DEFAULT_TPOT).as_secs_f64() * 1e3;
    let mut pods: Vec<Pod> = (0..setup.replicas.max(1))
        .map(|_| Pod::new(setup, contestant, tpot_ms))
        .collect::<Result<_, _>>()
        .map_err(SourceError::Profile)?;
    let mut tallies: Vec<Tally> = Vec::new();
    for at in 0..setup.settings.classes.len() {
        let slo = setup.slos.get(at).copied().unwrap_or_default();
        tallies.push(Tally::new(slo));
    }
    let mut replay = Replay {
        setup,
        requests: Requests::default(),
        recorder: Recorder::new(tallies.len()),
        look_at: Duration::ZERO,
        tallies,
        events: Vec::new(),
        busy: Duration::ZERO,
        in_window: true,
    };
    let mut random = StdRng::seed_from_u64(setup.seed);
    let (mut now, mut last_arrival, mut turn) = (Duration::ZERO, Duration::ZERO, 0);
    let mut next = source.next().transpose()?;
    loop {
        let due = pods.iter().enumerate();
        let due = due.filter_map(|(at, pod)| Some((pod.due?, at))).min();
        let arrives = next.as_ref().map(|arrival| arrival.at);
        now = match (due, arrives) {
            (None, None) => break,
            (Some((due, _)), arrives) if arrives.is_none_or(|at| due <= at) => due,
            (_, arrives) => arrives.unwrap_or(now),
        };
        replay.in_window = match source.window {
            Some(window) => now < window,
            None => next.is_some(),
        };
        let arrived =
            next.take_if(|arrival| arrival.at <= now && due.is_none_or(|(due, _)| due > now));
        let at = match (arrived, due) {
            (Some(arrival), _) => {
                last_arrival = arrival.at;
                let at = setup.balancer.choose(&pods, turn, &mut random);
                turn += 1;
                next = source.next().transpose()?;
                // A step that ends in this very moment was let end before.
                replay.arrive(&mut pods[at], arrival, now);
                at
            }
            (None, Some((_, at))) => at,
            (None, None) => break,
        };
        replay.pass(&mut pods[at], now);
        replay.look(&pods, now);
    }
    let window = source.window.unwrap_or(last_arrival);
    let report = replay.report(contestant, window, now, pods.len());
    Ok((report, source.skipped))
}

// === impl Pod ===

impl Pod {
    fn new(setup: &Setup, contestant: Contestant, tpot_ms: f64) -> Result<Self, ProfileError> {
        let profile = &setup.profile;
        Ok(Self {
            engine: Engine::new(profile.clone(), contestant.engine_policy())?,
            front: contestant.front(&setup.settings, profile, tpot_ms),
            cache: PrefixCache::new(profile.kv_tokens),
            requests: 0,
            due: None,
        })
    }
}

// === impl Replay ===

impl Replay<'_> {
    fn arrive(&mut self, pod: &mut Pod, arrival: Arrival, now: Duration) {
        let class = &self.setup.settings.classes[arrival.class];
        self.tallies[arrival.class].offered += 1;
        pod.requests += 1;
        let asked = Asked {
            id: self.requests.next_id(),
            class: class.name.clone(),
            interactive: class.tier == Tier::Interactive,
            priority: class.priority,
            tenant: arrival.tenant.clone(),
            prompt_tokens: arrival.prompt_tokens,
        };
        self.requests.all.push_back(Some(Live {
            arrival,
            cached_tokens: 0,
            started: None,
            first_token: None,
            tokens: 0,
        }));
        pod.front.arrive(asked, now);
    }

    /// Lets a pod come to this moment: what the engine did, then what the front wants.
    fn pass(&mut self, pod: &mut Pod, now: Duration) {
        let mut events = std::mem::take(&mut self.events);
        pod.engine.advance(now, &mut events);
        for event in events.drain(..) {
            self.event(pod, event, now);
        }
        while let Some(verdict) = pod.front.poll(now) {
            match verdict {
                Verdict::Start(id) => self.start(pod, id, now, &mut events),
                Verdict::Refuse(id, why) => {
                    if let Some(live) = self.requests.take(id) {
                        let class = live.arrival.class;
                        self.tallies[class].refused(why);
                        self.recorder.refused(class, now);
                        self.recorder.queued(class, live.arrival.at, now);
                        pod.requests -= 1;
                    }
                }
            }
        }
        events.clear();
        self.events = events;
        let wakes = pod.front.wake_at(now).map(|at| at.max(now + LEAST_SLEEP));
        // A wake-up serves requests; without any it would only keep the clock running.
        let wakes = wakes.filter(|_| pod.requests > 0);
        pod.due = pod.engine.next_at().into_iter().chain(wakes).min();
    }

    /// Notes the limit, over all pods, now and then.
    fn look(&mut self, pods: &[Pod], now: Duration) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        let limits = pods.iter().map(|pod| pod.front.limit());
        if let Some(limit) = limits.sum::<Option<f64>>() {
            self.recorder.limit(now, limit);
        }
    }

    fn start(&mut self, pod: &mut Pod, id: u64, now: Duration, events: &mut Vec<Event>) {
        let Some(live) = self.requests.get(id) else {
            return;
        };
        live.started = Some(now);
        live.cached_tokens = pod
            .cache
            .take(&live.arrival.blocks)
            .min(live.arrival.prompt_tokens - 1);
        let class = &self.setup.settings.classes[live.arrival.class];
        let prompt = Prompt {
            id: SequenceId(id),
            prompt_tokens: live.arrival.prompt_tokens,
            cached_tokens: live.cached_tokens,
            output_tokens: live.arrival.output_tokens,
            priority: -i64::from(class.priority),
        };
        if pod.engine.submit(prompt, now, events).is_err() {
            self.end(pod, id, now);
        }
    }

    fn event(&mut self, pod: &mut Pod, event: Event, now: Duration) {
        match event {
            Event::Token { id, number, after } => {
                let Some(live) = self.requests.get(id.0) else {
                    return;
                };
                live.tokens = number;
                live.first_token.get_or_insert(now);
                let tally = &mut self.tallies[live.arrival.class];
                tally.tokens += 1;
                self.recorder.tokens(live.arrival.class, now, 1);
                if number > 1 {
                    self.recorder.gap(live.arrival.class, now, after);
                }
                tally.tokens_in_window += u64::from(self.in_window);
                let came = Came {
                    id: id.0,
                    output_tokens: number,
                    gap: (number > 1).then_some(after),
                };
                pod.front.token(came, now);
            }
            Event::Finished { id, .. } => self.end(pod, id.0, now),
            Event::Step { load, .. } => self.busy += self.setup.profile.step.of(load),
            Event::Started { .. } | Event::Preempted { .. } => {}
        }
    }

    /// A request leaves the engine: complete, or refused by it.
    fn end(&mut self, pod: &mut Pod, id: u64, now: Duration) {
        let Some(live) = self.requests.take(id) else {
            return;
        };
        pod.requests -= 1;
        let class = &self.setup.settings.classes[live.arrival.class];
        pod.front.done(
            Done {
                id,
                interactive: class.tier == Tier::Interactive,
                prompt_tokens: live.arrival.prompt_tokens,
                cached_tokens: live.cached_tokens,
                output_tokens: live.tokens,
            },
            now,
        );
        let started = live.started.unwrap_or(now);
        self.recorder
            .queued(live.arrival.class, live.arrival.at, started);
        self.recorder.in_flight(live.arrival.class, started, now);
        let tally = &mut self.tallies[live.arrival.class];
        let since = |time: Duration| time - live.arrival.at;
        match (live.started, live.first_token) {
            (Some(started), Some(first_token)) => tally.completed(Completed {
                started: since(started),
                first_token: since(first_token),
                last_token: since(now),
                tokens: live.tokens,
            }),
            _ => tally.failed += 1,
        }
    }

    fn report(
        mut self,
        contestant: Contestant,
        window: Duration,
        end: Duration,
        pods: usize,
    ) -> Run {
        for live in self.requests.all.iter().flatten() {
            self.tallies[live.arrival.class].cancelled += 1;
            let started = live.started.unwrap_or(end);
            self.recorder
                .queued(live.arrival.class, live.arrival.at, started);
            self.recorder.in_flight(live.arrival.class, started, end);
        }
        // Where all came in one moment, the whole run is the window.
        let at_once = window.is_zero();
        let window = if at_once { end } else { window };
        let seconds = window.as_secs_f64().max(f64::MIN_POSITIVE);
        let rate = |tally: &Tally| match at_once {
            true => tally.tokens as f64 / seconds,
            false => tally.tokens_in_window as f64 / seconds,
        };
        let all: f64 = self.tallies.iter().map(rate).sum();
        let busy = self.busy.as_secs_f64() / (end.as_secs_f64() * pods as f64);
        let names = self.setup.settings.classes.iter();
        let timeline = self
            .recorder
            .finish(names.clone().map(|class| &*class.name), end);
        let names = names.map(|class| class.name.to_string());
        let classes = self.tallies.into_iter().map(|tally| {
            let rate = rate(&tally);
            tally.report(rate)
        });
        Run {
            name: self.setup.name.clone(),
            policy: contestant.to_string(),
            seed: self.setup.seed,
            duration_s: rounded(window.as_secs_f64()),
            classes: names.zip(classes).collect(),
            engine: EngineRun {
                busy: busy.is_finite().then(|| rounded(busy)),
                output_tokens_per_s: Some(rounded(all)),
            },
            timeline,
        }
    }
}

// === impl Requests ===

impl Requests {
    fn next_id(&self) -> u64 {
        self.first + self.all.len() as u64
    }

    fn get(&mut self, id: u64) -> Option<&mut Live> {
        let at = id.checked_sub(self.first)? as usize;
        self.all.get_mut(at)?.as_mut()
    }

    fn take(&mut self, id: u64) -> Option<Live> {
        let at = id.checked_sub(self.first)? as usize;
        let live = self.all.get_mut(at)?.take();
        while let Some(None) = self.all.front() {
            self.all.pop_front();
            self.first += 1;
        }
        live
    }
}

// === impl Balancer ===

impl Balancer {
    fn choose(self, pods: &[Pod], turn: usize, random: &mut StdRng) -> usize {
        let fewer = |places: &mut dyn Iterator<Item = usize>| {
            places.min_by_key(|at| pods[*at].requests).unwrap_or(0)
        };
        match self {
            Self::RoundRobin => turn % pods.len(),
            Self::LeastConnections => fewer(&mut (0..pods.len())),
            Self::RandomTwo => {
                let mut one = || random.random_range(0..pods.len());
                fewer(&mut [one(), one()].into_iter())
            }
        }
    }
}

impl FromStr for Balancer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "round-robin" => Ok(Self::RoundRobin),
            "least-connections" => Ok(Self::LeastConnections),
            "random-two" => Ok(Self::RandomTwo),
            _ => Err("write round-robin, least-connections or random-two".to_owned()),
        }
    }
}
