//! The mode of this one pod, by its annotation `fairtide.dev/mode`, without the operator.
//!
//! The kubelet writes the annotation's value into a file of a downward API volume, some time after
//! it was set. No file: nothing is said, as where there is no such volume. An empty file: the pod
//! has no such annotation. Both leave the mode to the pool. A word that is no mode changes nothing
//! either, and is warned about: it must not turn anything off by a typing error.

use crate::in_force::PolicySeat;
use fairtide_policy::Mode;
use std::{io, path::PathBuf, time::Duration};

/// The kubelet takes about a minute; it swaps a link, which file watches of all kinds miss in some
/// way. A look costs nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Longer values are no mode, and aren't shown as a whole.
const LONGEST: usize = 64;

/// What the pod itself says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PodMode {
    /// There is no file.
    #[default]
    Absent,
    /// There is no annotation.
    Empty,
    /// A mode.
    Is(Mode),
    /// Something else.
    Unknown(String),
}

/// The mode in force, and who set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModeInForce {
    pub(crate) mode: Mode,
    pub(crate) source: &'static str,
}

// === impl PodMode ===

impl PodMode {
    fn read(text: &str) -> Self {
        match text.trim() {
            "" => Self::Empty,
            "Enforce" => Self::Is(Mode::Enforce),
            "Bypass" => Self::Is(Mode::Bypass),
            other => Self::Unknown(other.chars().take(LONGEST).collect()),
        }
    }

    /// What holds, if the pool says this.
    pub(crate) fn over(&self, pool: Mode) -> ModeInForce {
        match self {
            Self::Is(mode) => ModeInForce {
                mode: *mode,
                source: "annotation",
            },
            _ => ModeInForce {
                mode: pool,
                source: "pool",
            },
        }
    }
}

// === impl ModeInForce ===

impl ModeInForce {
    pub(crate) fn word(self) -> &'static str {
        match self.mode {
            Mode::Enforce => "Enforce",
            Mode::Bypass => "Bypass",
        }
    }
}

/// Reads the file as it is now.
pub(crate) async fn read(file: &PathBuf) -> io::Result<PodMode> {
    match tokio::fs::read(file).await {
        Ok(bytes) => Ok(PodMode::read(&String::from_utf8_lossy(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PodMode::Absent),
        Err(error) => Err(error),
    }
}

/// Follows the file for as long as the process lives.
pub(crate) async fn follow(file: PathBuf, seat: PolicySeat) {
    let mut readable = true;
    loop {
        match read(&file).await {
            Ok(said) => {
                readable = true;
                seat.set_pod_mode(said).await;
            }
            // What can't be read says nothing new.
            Err(error) if readable => {
                readable = false;
                tracing::warn!(file = %file.display(), %error, "the pod's mode can't be read");
            }
            Err(_) => {}
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_absent_and_unknown_leave_it_to_the_pool() {
        for (text, said) in [
            ("", PodMode::Empty),
            ("\n", PodMode::Empty),
            ("Bypass\n", PodMode::Is(Mode::Bypass)),
            ("Enforce", PodMode::Is(Mode::Enforce)),
            ("bypass", PodMode::Unknown("bypass".to_owned())),
        ] {
            assert_eq!(PodMode::read(text), said, "{text:?}");
        }
        for said in [
            PodMode::Absent,
            PodMode::Empty,
            PodMode::Unknown("x".into()),
        ] {
            let held = said.over(Mode::Bypass);
            assert_eq!((held.mode, held.source), (Mode::Bypass, "pool"));
        }
        let held = PodMode::Is(Mode::Enforce).over(Mode::Bypass);
        assert_eq!((held.mode, held.source), (Mode::Enforce, "annotation"));
    }
}
