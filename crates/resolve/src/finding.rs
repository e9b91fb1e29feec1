//! What is to be said about an object: conditions without their times, and warnings.

use crate::ObjectKey;
use fairtide_api::conditions;

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It does.
    True,
    /// It doesn't.
    False,
    /// It can't be told.
    Unknown,
}

/// A condition of an object, but for its times and generation, which whoever writes it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its type, one of [`fairtide_api::conditions`].
    pub type_: &'static str,
    /// Whether it holds.
    pub status: Status,
    /// Its reason, one of [`fairtide_api::conditions::reason`].
    pub reason: &'static str,
    /// Why, and what to do about it.
    pub message: String,
}

/// Something that is allowed and most likely not meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// Kind of the object.
    pub kind: &'static str,
    /// The object.
    pub object: ObjectKey,
    /// One of [`fairtide_api::conditions::reason`].
    pub reason: &'static str,
    /// What is odd, and what to write if it isn't meant.
    pub message: String,
}

// === impl Status ===

impl Status {
    /// The word that a condition holds.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::True => "True",
            Status::False => "False",
            Status::Unknown => "Unknown",
        }
    }
}

// === impl Finding ===

impl Finding {
    pub(crate) fn new(
        type_: &'static str,
        status: Status,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_,
            status,
            reason,
            message: message.into(),
        }
    }

    /// Whether a user has to edit something before this gets better.
    pub fn is_fault(&self) -> bool {
        match self.type_ {
            conditions::CONFLICTED => self.status == Status::True,
            _ => self.status == Status::False,
        }
    }
}

/// A few names, quoted, and how many more there are: messages stay readable, whatever there is.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    few(names.into_iter().map(|name| format!("{name:?}")).collect())
}

/// The first of some words, and how many more there are.
pub(crate) fn few(mut words: Vec<String>) -> String {
    let more = words.len().saturating_sub(5);
    words.truncate(5);
    match more {
        0 => words.join(", "),
        more => format!("{} and {more} more", words.join(", ")),
    }
}
