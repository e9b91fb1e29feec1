//! Classes that take the same requests.

use fairtide_policy::{Class, Match};

/// A class that is younger than another one, with matches that overlap in the same precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    /// Index of the class that gets the requests, among those of the pool.
    pub(super) winner: usize,
    /// Index of the class that doesn't.
    pub(super) loser: usize,
    /// Index of the loser's first match that overlaps.
    pub(super) entry: usize,
    /// Their precedence.
    pub(super) precedence: i32,
}

/// The conflicts among the classes of one policy, which come oldest first. One a pair is enough to
/// be told.
pub(super) fn conflicts(classes: &[Class]) -> Vec<Conflict> {
    let mut found = Vec::new();
    for (loser, younger) in classes.iter().enumerate() {
        for (winner, older) in classes[..loser].iter().enumerate() {
            let tied = |a: &Match| {
                older
                    .matches
                    .iter()
                    .any(|b| a.precedence == b.precedence && a.overlaps(b))
            };
            if let Some(entry) = younger.matches.iter().position(tied) {
                found.push(Conflict {
                    winner,
                    loser,
                    entry,
                    precedence: younger.matches[entry].precedence,
                });
            }
        }
    }
    found
}
