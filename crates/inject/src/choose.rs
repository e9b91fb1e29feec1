//! Which container's port the sidecar takes, and which containers are the engine.
//!
//! They are the same one, except where another proxy stands before the engine already (llm-d's
//! routing sidecar): then the sidecar goes in front of that proxy, so that each request is
//! admitted once, and prefill traffic, which comes from other pods, isn't queued a second time.

use crate::{
    by_hand,
    pod::{Container, List, Pod},
    refusal::Refusal,
    start::{Program, Start, engine_in, start},
    takeover::Takeover,
    variables::Variables,
    wishes::Wishes,
    words::{Word, words},
};
use fairtide_policy::Engine;

/// A container that runs as long as the pod, and what it starts.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) container: Container<'a>,
    pub(crate) variables: Variables<'a>,
    pub(crate) words: Vec<Word<'a>>,
    pub(crate) start: Start,
}

/// What was chosen.
#[derive(Debug)]
pub(crate) struct Chosen<'a> {
    /// Whose port the sidecar takes.
    pub(crate) target: Candidate<'a>,
    /// The engine, if that is known.
    pub(crate) engine: Option<Engine>,
    /// The app containers that wait with their end until the pod is drained.
    pub(crate) held_back: Vec<String>,
}

/// Nothing in the pod is an engine for sure.
#[derive(Debug)]
pub(crate) struct NoEngine {
    pub(crate) container: String,
    pub(crate) what: String,
    pub(crate) help: String,
    /// Whether a container uses an accelerator.
    pub(crate) accelerated: bool,
}

// === impl Candidate ===

impl<'a> Candidate<'a> {
    pub(crate) fn of(container: Container<'a>, known: Option<Engine>) -> Self {
        let variables = Variables::of(container);
        let words = words(container, &variables);
        let start = start(container, &words, known);
        Self {
            container,
            variables,
            words,
            start,
        }
    }

    fn engine(&self) -> Option<Engine> {
        match &self.start {
            Start::Server(Program::Engine(engine)) => Some(*engine),
            Start::Shell { script, .. } => engine_in(script),
            _ => None,
        }
    }

    fn is_engine(&self) -> bool {
        matches!(self.start, Start::Server(Program::Engine(_)))
    }

    fn is_proxy(&self) -> bool {
        self.start == Start::Server(Program::RoutingProxy)
    }
}

/// Chooses.
pub(crate) fn choose<'a>(
    pod: Pod<'a>,
    wishes: &Wishes,
) -> Result<Result<Chosen<'a>, NoEngine>, Refusal> {
    let mut all: Vec<Candidate<'a>> = pod
        .containers()
        .filter(|container| container.stays())
        .map(|container| Candidate::of(container, None))
        .collect();
    let target = match target(&all, wishes)? {
        Some(at) => at,
        None => return Ok(Err(no_engine(&all))),
    };
    let held_back = held_back(&all, target);
    let engine = all.get(target).and_then(Candidate::engine).or_else(|| {
        let mut engines = all.iter().filter_map(Candidate::engine);
        let first = engines.next();
        first.filter(|first| engines.all(|engine| engine == *first))
    });
    let mut target = all.swap_remove(target);
    if target.start == Start::Image {
        target = Candidate::of(target.container, wishes.known_engine());
    }
    let engine = engine.or_else(|| target.engine()).or(wishes.known_engine());
    if let (Some(found), Some((said, source_of))) = (engine, &wishes.engine)
        && found != *said
    {
        return Err(Refusal::OtherEngine {
            container: target.container.name().to_owned(),
            found,
            source_of: source_of.clone(),
            said: *said,
        });
    }
    Ok(Ok(Chosen {
        target,
        engine,
        held_back,
    }))
}

fn target(all: &[Candidate<'_>], wishes: &Wishes) -> Result<Option<usize>, Refusal> {
    if let Some(name) = &wishes.engine_container {
        let found = all.iter().position(|it| it.container.name() == name);
        return match found {
            Some(at) => Ok(Some(at)),
            None => Err(Refusal::NoSuchContainer {
                name: name.clone(),
                known: names_of(all.iter()),
            }),
        };
    }
    let which = |wanted: &dyn Fn(&Candidate<'_>) -> bool| -> Vec<usize> {
        (0..all.len())
            .filter(|&at| all.get(at).is_some_and(wanted))
            .collect()
    };
    let is_app = |it: &Candidate<'_>| it.container.list == List::App;
    let accelerated = |it: &Candidate<'_>| is_app(it) && it.container.has_accelerator();
    let manual = wishes.takeover == Takeover::Manual;
    let said = wishes.engine.is_some();
    let ranks: [&dyn Fn(&Candidate<'_>) -> bool; 6] = [
        &|it| it.is_proxy(),
        &|it| is_app(it) && it.is_engine(),
        &|it| is_app(it) && it.engine().is_some(),
        // An engine as a sidecar, of a Job say.
        &|it| it.is_engine(),
        // From here on nothing in the container itself tells; somebody must have said it.
        &|it| accelerated(it) && (manual || said && it.start == Start::Image),
        &|it| is_app(it) && (manual || said && it.start == Start::Image),
    ];
    for rank in ranks {
        let found = which(rank);
        let narrowed: Vec<usize> = found
            .iter()
            .copied()
            .filter(|&at| all.get(at).is_some_and(accelerated))
            .collect();
        match (found.as_slice(), narrowed.as_slice()) {
            ([], _) => {}
            ([only], _) | (_, [only]) => return Ok(Some(*only)),
            _ => {
                let all = found.iter().filter_map(|&at| all.get(at));
                let names = names_of(all);
                return Err(Refusal::Ambiguous { names });
            }
        }
    }
    // A program of an engine that doesn't serve is told apart from what isn't known at all.
    let idle = which(&|it| is_app(it) && matches!(it.start, Start::NoServer(_)));
    Ok(idle.first().copied())
}

/// Containers that would cut requests off by ending. Sidecars end after them anyway.
fn held_back(all: &[Candidate<'_>], target: usize) -> Vec<String> {
    let apps = || {
        let apps = all.iter().enumerate();
        apps.filter(|(_, it)| it.container.list == List::App)
    };
    let mut held: Vec<&str> = apps()
        .filter(|(at, it)| *at == target || it.engine().is_some())
        .map(|(_, it)| it.container.name())
        .collect();
    if held.is_empty() {
        let accelerated = apps().filter(|(_, it)| it.container.has_accelerator());
        held.extend(accelerated.map(|(_, it)| it.container.name()));
    }
    if held.is_empty() {
        let only: Vec<&str> = apps().map(|(_, it)| it.container.name()).collect();
        if only.len() == 1 {
            held = only;
        }
    }
    held.into_iter().map(str::to_owned).collect()
}

fn no_engine(all: &[Candidate<'_>]) -> NoEngine {
    let apps = all.iter().filter(|it| it.container.list == List::App);
    let accelerated: Vec<&Candidate<'_>> = apps
        .clone()
        .filter(|it| it.container.has_accelerator())
        .collect();
    let first = accelerated.first().copied().or_else(|| apps.clone().next());
    NoEngine {
        container: first.map_or(String::new(), |it| it.container.name().to_owned()),
        what: first.map_or(String::new(), by_hand::what),
        help: first.map_or(String::new(), |it| by_hand::help(it, None)),
        accelerated: !accelerated.is_empty(),
    }
}

fn names_of<'a>(candidates: impl Iterator<Item = &'a Candidate<'a>>) -> String {
    let names: Vec<&str> = candidates.map(|it| it.container.name()).collect();
    names.join(", ")
}
