//! Objects from the YAML that `kubectl apply` takes, for where there is no API server.
//!
//! Each document is read by itself: what is wrong with one never hides the others. What an API
//! server would refuse is refused here with the same words, and so are fields that nobody knows,
//! which an API server would prune.

mod document;
mod folder;
mod last_good;

pub use folder::{Unreadable, read_manifests};

use crate::PodMeta;
use fairtide_api::{InferencePool, TrafficClass, Violation};
use std::fmt;

/// Everything that manifests hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifests {
    /// The pools that are valid.
    pub pools: Vec<(Origin, InferencePool)>,
    /// The classes that are valid.
    pub classes: Vec<(Origin, TrafficClass)>,
    /// The pods.
    pub pods: Vec<(Origin, PodMeta)>,
    /// The documents that were refused.
    pub errors: Vec<ManifestError>,
    /// What was passed over because it is of another kind, in a sentence each.
    pub notes: Vec<String>,
}

/// Where an object comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// Name of the file, without its folder.
    pub file: String,
    /// Which document of the file, from 1.
    pub document: usize,
}

/// A document that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ManifestError {
    /// Where it is.
    pub origin: Origin,
    /// Kind, namespace and name of the object, as far as they can be read.
    pub object: Option<(String, crate::ObjectKey)>,
    /// What is wrong with it.
    pub problem: ManifestProblem,
}

/// What is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestProblem {
    /// It can't be read at all; neither can what follows in the file.
    Syntax(String),
    /// It is an object that breaks its rules.
    Invalid(Vec<Violation>),
    /// An object of this kind and name came before.
    Duplicate(Origin),
}

/// Reads the documents of one text. `file` names it in errors.
pub fn parse_manifests(file: &str, text: &str) -> Manifests {
    let mut manifests = Manifests::default();
    manifests.add(file, text);
    manifests
}

// === impl Manifests ===

impl Manifests {
    /// The valid pools.
    pub fn pools(&self) -> impl Iterator<Item = &InferencePool> {
        self.pools.iter().map(|(_, pool)| pool)
    }

    /// The valid classes.
    pub fn classes(&self) -> impl Iterator<Item = &TrafficClass> {
        self.classes.iter().map(|(_, class)| class)
    }

    /// The pods.
    pub fn pods(&self) -> impl Iterator<Item = &PodMeta> {
        self.pods.iter().map(|(_, pod)| pod)
    }
}

// === impl Origin ===

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)
    }
}

// === impl ManifestError ===

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if let Some((kind, key)) = &self.object {
            write!(f, " ({kind} {key})")?;
        }
        match &self.problem {
            ManifestProblem::Syntax(message) => write!(f, ": {message}"),
            ManifestProblem::Duplicate(first) => {
                write!(f, ": is already in {first}; leave one of them out")
            }
            ManifestProblem::Invalid(violations) => {
                for (index, violation) in violations.iter().enumerate() {
                    write!(f, "{} {violation}", if index == 0 { ":" } else { ";" })?;
                }
                Ok(())
            }
        }
    }
}
