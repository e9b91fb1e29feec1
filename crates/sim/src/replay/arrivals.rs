//! The requests of a replay in the order of time: rows of traces that run beside each other, or
//! the plan of a load scenario.

use super::{
    rules::Rules,
    trace::{Row, Trace, TraceError},
};
use crate::load::{Scenario, plan};
use fairtide_scheduler::Settings;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The tenant of rows that name none; the sidecar's word for it.
pub(super) const NOBODY: &str = "anonymous";

/// A request that arrives.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Since the start.
    pub at: Duration,
    /// Its place in the classes of the settings.
    pub class: usize,
    /// Who sent it.
    pub tenant: Arc<str>,
    /// Length of its prompt.
    pub prompt_tokens: u64,
    /// Length of its answer.
    pub output_tokens: u64,
    /// The named blocks of its prompt.
    pub blocks: Vec<u64>,
}

/// Why there are no more requests.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A trace is wrong.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The engines' profile contradicts itself.
    #[error(transparent)]
    Profile(crate::model::ProfileError),
    /// A row, a rule or a scenario names a class that the pool doesn't have.
    #[error(
        "{origin} names the class {class:?}, which the pool doesn't have; write one of {known}"
    )]
    UnknownClass {
        /// Who names it.
        origin: String,
        /// The class.
        class: String,
        /// Those that there are.
        known: String,
    },
}

/// Requests, read as they are needed.
pub struct Source {
    rows: Rows,
    tenants: HashMap<String, Arc<str>>,
    classes: Vec<Arc<str>>,
    default: usize,
    /// The end of the arrivals, where it is known beforehand.
    pub(super) window: Option<Duration>,
    /// Rows without prompt or answer: failed requests, which the trace can't tell more of.
    pub(super) skipped: u64,
}

enum Rows {
    Traces {
        traces: Vec<Open>,
        rules: Rules,
        speed: f64,
    },
    Planned(std::vec::IntoIter<Arrival>),
}

struct Open {
    name: String,
    trace: Trace,
    next: Option<Row>,
}

// === impl Source ===

impl Source {
    /// Traces that run beside each other, each from its first row on, `speed` times as fast.
    ///
    /// # Errors
    /// A trace can't be opened, or a rule names an unknown class.
    pub fn traces(
        paths: &[PathBuf],
        rules: Rules,
        speed: f64,
        settings: &Settings,
    ) -> Result<Self, SourceError> {
        let mut source = Self::of(Rows::Planned(Vec::new().into_iter()), settings);
        for class in rules.classes() {
            source.class(class, || "a rule".to_owned())?;
        }
        let traces = paths
            .iter()
            .map(|path| Open::new(path))
            .collect::<Result<_, _>>()?;
        source.rows = Rows::Traces {
            traces,
            rules,
            speed,
        };
        Ok(source)
    }

    /// The requests of a load scenario.
    ///
    /// # Errors
    /// The scenario has a class that the pool doesn't have.
    pub fn scenario(
        scenario: &Scenario,
        seed: u64,
        settings: &Settings,
    ) -> Result<Self, SourceError> {
        let mut source = Self::of(Rows::Planned(Vec::new().into_iter()), settings);
        let mut places = Vec::new();
        for class in &scenario.classes {
            let origin = || format!("the scenario {}", scenario.name);
            places.push(source.class(&class.name, origin)?);
        }
        let mut all = Vec::new();
        for offered in plan(scenario, seed) {
            let tenants = &scenario.classes[offered.class].tenants;
            let tenant = offered
                .tenant
                .map_or(NOBODY, |at| tenants[at].name.as_str());
            all.push(Arrival {
                at: offered.at,
                class: places[offered.class],
                tenant: source.tenant(tenant),
                prompt_tokens: offered.prompt_tokens,
                output_tokens: offered.output_tokens,
                blocks: Vec::new(),
            });
        }
        source.rows = Rows::Planned(all.into_iter());
        source.window = Some(scenario.duration);
        Ok(source)
    }

    fn of(rows: Rows, settings: &Settings) -> Self {
        let classes: Vec<Arc<str>> = settings.classes.iter().map(|c| c.name.clone()).collect();
        let default = classes
            .iter()
            .position(|name| *name == settings.default_class);
        Self {
            rows,
            tenants: HashMap::new(),
            default: default.unwrap_or(0),
            classes,
            window: None,
            skipped: 0,
        }
    }

    fn class(&self, name: &str, origin: impl FnOnce() -> String) -> Result<usize, SourceError> {
        let place = self.classes.iter().position(|class| **class == *name);
        place.ok_or_else(|| SourceError::UnknownClass {
            origin: origin(),
            class: name.to_owned(),
            known: self.classes.join(", "),
        })
    }

    fn tenant(&mut self, name: &str) -> Arc<str> {
        if let Some(tenant) = self.tenants.get(name) {
            return tenant.clone();
        }
        let tenant: Arc<str> = name.into();
        self.tenants.insert(name.to_owned(), tenant.clone());
        tenant
    }

    fn arrival(&mut self, name: &str, row: Row) -> Result<Arrival, SourceError> {
        let class = match &row.class {
            None => self.default,
            Some(class) => self.class(class, || format!("a row of {name}"))?,
        };
        Ok(Arrival {
            at: row.at,
            class,
            tenant: self.tenant(row.tenant.as_deref().unwrap_or(NOBODY)),
            prompt_tokens: row.prompt_tokens,
            output_tokens: row.output_tokens,
            blocks: row.blocks,
        })
    }
}

impl Iterator for Source {
    type Item = Result<Arrival, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (name, row) = match &mut self.rows {
                Rows::Planned(arrivals) => return arrivals.next().map(Ok),
                Rows::Traces {
                    traces,
                    rules,
                    speed,
                } => {
                    let first = traces
                        .iter_mut()
                        .filter(|open| open.next.is_some())
                        .min_by_key(|open| open.next.as_ref().map(|row| row.at))?;
                    let mut row = match first.take() {
                        Ok(row) => row?,
                        Err(error) => return Some(Err(error.into())),
                    };
                    rules.apply(&first.name, &mut row);
                    row.at = row.at.div_f64(*speed);
                    (first.name.clone(), row)
                }
            };
            if row.prompt_tokens == 0 || row.output_tokens == 0 {
                self.skipped += 1;
                continue;
            }
            return Some(self.arrival(&name, row));
        }
    }
}

// === impl Open ===

impl Open {
    fn new(path: &Path) -> Result<Self, TraceError> {
        let mut trace = Trace::open(path)?;
        let next = trace.next().transpose()?;
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        Ok(Self {
            name: name.unwrap_or_default(),
            trace,
            next,
        })
    }

    /// The row that is next, and looks at the one behind it.
    fn take(&mut self) -> Result<Option<Row>, TraceError> {
        let behind = self.trace.next().transpose()?;
        Ok(std::mem::replace(&mut self.next, behind))
    }
}
