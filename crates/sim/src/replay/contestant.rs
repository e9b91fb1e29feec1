//! The policies that can be replayed, by the names of the command line.

use super::{
    front::{Banded, Capped, Drr, Fairtide, Front, Passing},
    limiter::{Aimd, Envoy, Fixed, Gradient2, Vegas},
};
use crate::model::{Profile, SchedulingPolicy};
use fairtide_scheduler::{EngineFacts, Settings};
use std::{fmt, str::FromStr};

/// A policy to be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contestant {
    /// The scheduler of this project under the given manifests.
    Fairtide,
    /// The engine alone, first come, first served.
    Fifo,
    /// The engine alone, with the classes' priorities.
    EnginePriority,
    /// So many batch requests in flight.
    Static(u32),
    /// As many batch requests as AIMD finds.
    Aimd,
    /// As many batch requests as Gradient2 finds.
    Gradient2,
    /// As many batch requests as Vegas finds.
    Vegas,
    /// As many batch requests as Envoy's gradient finds.
    EnvoyGradient,
    /// Bands of priority before the engine's seats.
    StrictPriority,
    /// Deficit round robin over tenants by prompt tokens.
    InputDrr,
    /// So many requests in flight, by priority.
    Haproxy(u32),
}

const NAMES: &str = "fairtide, fifo, engine-priority, static:N, aimd, gradient2, vegas, envoy-gradient, strict-priority, input-drr, haproxy:N";

// === impl Contestant ===

impl Contestant {
    /// How the engine orders its own queue.
    pub(super) fn engine_policy(self) -> SchedulingPolicy {
        match self {
            Self::EnginePriority => SchedulingPolicy::Priority,
            _ => SchedulingPolicy::Fcfs,
        }
    }

    /// What stands before an engine. `tpot_ms` is what limiters keep to.
    pub(super) fn front(
        self,
        settings: &Settings,
        profile: &Profile,
        tpot_ms: f64,
    ) -> Box<dyn Front> {
        let seats = profile.max_num_seqs;
        match self {
            Self::Fairtide => {
                let facts = EngineFacts {
                    seats: u32::try_from(seats).ok(),
                    kv_tokens: Some(profile.kv_tokens),
                    context_tokens: Some(profile.max_model_len),
                };
                Box::new(Fairtide::new(settings.clone(), facts))
            }
            Self::Fifo | Self::EnginePriority => Box::new(Passing::default()),
            Self::Static(most) => Box::new(Capped::new(Box::new(Fixed(most.into())))),
            Self::Aimd => Box::new(Capped::new(Box::new(Aimd::new(tpot_ms)))),
            Self::Gradient2 => Box::new(Capped::new(Box::new(Gradient2::new()))),
            Self::Vegas => Box::new(Capped::new(Box::new(Vegas::new()))),
            Self::EnvoyGradient => Box::new(Capped::new(Box::new(Envoy::new(tpot_ms)))),
            Self::StrictPriority => Box::new(Banded::new(seats)),
            Self::InputDrr => Box::new(Drr::new(seats)),
            Self::Haproxy(most) => Box::new(Banded::new(most as usize)),
        }
    }
}

impl FromStr for Contestant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, number) = match text.split_once(':') {
            None => (text, None),
            Some((name, number)) => (name, Some(number)),
        };
        let count = || {
            let count = number.and_then(|number| number.parse::<u32>().ok());
            let count = count.filter(|count| *count > 0);
            count.ok_or_else(|| {
                format!("{name} needs a number of requests from 1 up: write {name}:16")
            })
        };
        let contestant = match name {
            "static" => return Ok(Self::Static(count()?)),
            "haproxy" => return Ok(Self::Haproxy(count()?)),
            "fairtide" => Self::Fairtide,
            "fifo" => Self::Fifo,
            "engine-priority" => Self::EnginePriority,
            "aimd" => Self::Aimd,
            "gradient2" => Self::Gradient2,
            "vegas" => Self::Vegas,
            "envoy-gradient" => Self::EnvoyGradient,
            "strict-priority" => Self::StrictPriority,
            "input-drr" => Self::InputDrr,
            _ => return Err(format!("there is no policy {name:?}; write one of {NAMES}")),
        };
        match number {
            None => Ok(contestant),
            Some(_) => Err(format!("{name} takes no number; write {name}")),
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fairtide => "fairtide",
            Self::Fifo => "fifo",
            Self::EnginePriority => "engine-priority",
            Self::Static(most) => return write!(f, "static:{most}"),
            Self::Aimd => "aimd",
            Self::Gradient2 => "gradient2",
            Self::Vegas => "vegas",
            Self::EnvoyGradient => "envoy-gradient",
            Self::StrictPriority => "strict-priority",
            Self::InputDrr => "input-drr",
            Self::Haproxy(most) => return write!(f, "haproxy:{most}"),
        })
    }
}
