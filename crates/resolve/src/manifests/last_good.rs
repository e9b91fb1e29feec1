//! What an API server does of its own accord: a refused edit leaves the object as it was.

use super::{ManifestError, ManifestProblem, Manifests, Origin};
use crate::ObjectKey;
use fairtide_api::Kind;

// === impl Manifests ===

impl Manifests {
    /// Takes objects that can't be read any more from what was read before, so that a slip of the
    /// pen leaves the last good policy in force. An object is gone once it is left out, not when it
    /// is broken. What `last` itself had kept is kept on.
    #[must_use]
    pub fn or_last_good(mut self, last: &Manifests) -> Self {
        let errors = self.errors.clone();
        keep(&mut self.pools, &last.pools, &errors);
        keep(&mut self.classes, &last.classes, &errors);
        self
    }
}

fn keep<T: Kind + Clone>(
    objects: &mut Vec<(Origin, T)>,
    last: &[(Origin, T)],
    errors: &[ManifestError],
) {
    for (origin, object) in last {
        let key = ObjectKey::of(object.meta());
        let broken = errors
            .iter()
            .any(|error| match (&error.problem, &error.object) {
                // Nobody knows what the rest of the file was to hold.
                (ManifestProblem::Syntax(_), _) => error.origin.file == origin.file,
                (ManifestProblem::Invalid(_), Some((kind, of))) => kind == T::KIND && *of == key,
                (ManifestProblem::Invalid(_), None) => error.origin == *origin,
                (ManifestProblem::Duplicate(_), _) => false,
            });
        let there = objects
            .iter()
            .any(|(_, found)| ObjectKey::of(found.meta()) == key);
        if broken && !there {
            objects.push((origin.clone(), object.clone()));
        }
    }
}
