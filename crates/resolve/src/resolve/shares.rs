//! What of a pool is guaranteed to whom (rule: never more than 90 % in all).

use fairtide_api::{Tier, TrafficClassSpec};

/// What can be promised of a pool, in percent. The rest is never promised, so that every class
/// that waits gets somewhere.
const PROMISED_AT_MOST: i32 = 90;

/// What a Batch class gets at most that asks for nothing.
const UNASKED_AT_MOST: i32 = 5;

/// What one class gets of one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Guaranteed percent.
    pub(super) percent: u8,
    /// Set where the class asked for more than was left: what older classes have been promised.
    pub(super) denied_beside: Option<i32>,
}

/// The shares of the classes of one pool, given oldest first.
///
/// Promises are kept in the order of age: one that would pass 90 % with the older ones counts as 0,
/// a younger one that fits is kept. Batch classes that ask for nothing split what is left.
pub(super) fn shares<'a>(
    classes: impl Iterator<Item = &'a TrafficClassSpec> + Clone,
) -> Vec<Share> {
    let mut promised = 0;
    let mut shares: Vec<Share> = classes
        .clone()
        .map(|class| {
            let asked = class.min_share.unwrap_or(0);
            if promised + asked > PROMISED_AT_MOST {
                return Share {
                    percent: 0,
                    denied_beside: Some(promised),
                };
            }
            promised += asked;
            Share {
                percent: u8::try_from(asked).unwrap_or(0),
                denied_beside: None,
            }
        })
        .collect();
    let unasked = |class: &TrafficClassSpec| class.tier == Tier::Batch && class.min_share.is_none();
    let takers = i32::try_from(classes.clone().filter(|c| unasked(c)).count()).unwrap_or(i32::MAX);
    if takers > 0 {
        let each = ((PROMISED_AT_MOST - promised) / takers).min(UNASKED_AT_MOST);
        for (share, class) in shares.iter_mut().zip(classes) {
            if unasked(class) {
                // A class may not be guaranteed more than it may hold.
                let most = class.max_share.unwrap_or(100);
                share.percent = u8::try_from(each.min(most)).unwrap_or(0);
            }
        }
    }
    shares
}
