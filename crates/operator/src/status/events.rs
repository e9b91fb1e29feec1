//! What users are told by Events: that something they wrote doesn't do what they may think, once,
//! when it begins.

use super::{Standing, assess::Assessment};
use fairtide_api::conditions::{ACCEPTED, CONFLICTED, INJECTED, PROGRAMMED, RESOLVED_REFS, reason};
use fairtide_resolve::Warning;

/// One Event. All are warnings: that all is well stands in the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Kind of the object.
    pub kind: &'static str,
    /// The object.
    pub key: fairtide_resolve::ObjectKey,
    /// Its uid.
    pub uid: Option<String>,
    /// A reason of [`fairtide_api::conditions::reason`].
    pub reason: String,
    /// What the operator was doing.
    pub action: &'static str,
    /// What is wrong and what to write.
    pub note: String,
}

/// What is to be told when a status turns from `old` into `new`.
pub fn notices(assessment: &Assessment, old: Option<&Standing>, new: &Standing) -> Vec<Notice> {
    let worth = new.conditions.iter().filter(|condition| {
        match (condition.type_.as_str(), condition.status.as_str()) {
            (ACCEPTED | RESOLVED_REFS, "False") | (CONFLICTED, "True") => true,
            (ACCEPTED, "True") => condition.reason != reason::ACCEPTED,
            (INJECTED, "False") => true,
            (PROGRAMMED, "False") => condition.reason == reason::REJECTED,
            _ => false,
        }
    });
    let news = worth.filter(|condition| {
        let before = old.and_then(|old| old.condition(&condition.type_));
        // Which pods have no sidecar changes with each that is rolled.
        let counts = condition.type_ == INJECTED;
        if counts && before.is_some_and(|before| before.status == condition.status) {
            return false;
        }
        before.is_none_or(|before| {
            (&before.status, &before.reason, &before.message)
                != (&condition.status, &condition.reason, &condition.message)
        })
    });
    news.map(|condition| Notice {
        kind: assessment.kind,
        key: assessment.key.clone(),
        uid: assessment.uid.clone(),
        reason: condition.reason.clone(),
        action: match condition.type_.as_str() {
            PROGRAMMED => "Push",
            INJECTED => "Inject",
            _ => "Resolve",
        },
        note: condition.message.clone(),
    })
    .collect()
}

/// A warning that was resolved, about its object.
pub fn warning(assessment: &Assessment, warning: &Warning) -> Notice {
    Notice {
        kind: assessment.kind,
        key: assessment.key.clone(),
        uid: assessment.uid.clone(),
        reason: warning.reason.to_owned(),
        action: "Resolve",
        note: warning.message.clone(),
    }
}
