//! From the document to what the scheduler obeys, with the bounds checked: a document that asks
//! for something impossible is refused as a whole, and the one before it stays in force.

use crate::{BucketUnit, Class, Policy, Tier};
use fairtide_scheduler as core;
use std::{collections::HashSet, time::Duration};

/// Bytes of queued bodies that a pod may hold over all classes: 10,000 waiting requests of the
/// usual 10 KiB fit, and the sidecar's memory limit isn't reached.
const MAX_QUEUED_BYTES: u64 = 128 << 20;

/// Why a policy document can't be obeyed. The sidecar answers it as a NACK.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No class, or none by the default's name.
    #[error("defaultClass {0:?} is not among the classes")]
    NoDefaultClass(String),
    /// Two classes of one name.
    #[error("class {0:?} is there twice")]
    DuplicateClass(String),
    /// A number is out of its bounds.
    #[error("class {class:?}: {field} is {value}, which is not {bounds}")]
    OutOfBounds {
        /// The class.
        class: String,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        bounds: &'static str,
    },
    /// The guaranteed shares promise more than there is.
    #[error("the minShares add up to {0} %, which is above 90 %")]
    OverPromised(u32),
    /// The limiter holds everything for ever.
    #[error("limiter.{0} is 0, which would hold every request; leave it out for no limit")]
    ZeroLimit(&'static str),
}

// === impl Policy ===

impl Policy {
    /// What the scheduler obeys under this policy.
    ///
    /// # Errors
    /// The first thing in the document that can't be obeyed.
    pub fn settings(&self) -> Result<core::Settings, PolicyError> {
        if self.class(&self.default_class).is_none() {
            return Err(PolicyError::NoDefaultClass(self.default_class.clone()));
        }
        for (name, limit) in [
            ("maxRequests", self.limiter.max_requests.map(u64::from)),
            ("maxTokens", self.limiter.max_tokens),
            ("seatCap", self.limiter.seat_cap.map(u64::from)),
        ] {
            if limit == Some(0) {
                return Err(PolicyError::ZeroLimit(name));
            }
        }
        let promised = self.classes.iter().map(|c| u32::from(c.min_share)).sum();
        if promised > 90 {
            return Err(PolicyError::OverPromised(promised));
        }
        let mut names = HashSet::new();
        let mut classes = Vec::with_capacity(self.classes.len());
        for class in &self.classes {
            if !names.insert(class.name.as_str()) {
                return Err(PolicyError::DuplicateClass(class.name.clone()));
            }
            classes.push(class.settings()?);
        }
        Ok(core::Settings {
            limit: core::Limit {
                max_requests: self.limiter.max_requests,
                max_tokens: self.limiter.max_tokens,
            },
            seat_cap: self.limiter.seat_cap,
            reserved_seats: self.limiter.reserved_seats,
            max_queued_bytes: MAX_QUEUED_BYTES,
            max_tenants: self.tenancy.max_tenants.max(1) as usize,
            default_class: self.default_class.as_str().into(),
            classes,
        })
    }
}

// === impl Class ===

impl Class {
    fn settings(&self) -> Result<core::ClassSettings, PolicyError> {
        self.within("weight", self.weight.into(), 1, 1_000_000, "1 to 1000000")?;
        self.within("minShare", self.min_share.into(), 0, 90, "0 to 90")?;
        if let Some(percent) = self.max_share {
            self.within("maxShare", percent.into(), 1, 100, "1 to 100")?;
        }
        if let Some(requests) = self.max_in_flight {
            self.within("maxInFlight", requests.into(), 1, u64::MAX, "at least 1")?;
        }
        if let Some(every) = self.at_least_every_ms {
            self.within("atLeastEveryMs", every, 1, u64::MAX, "at least 1")?;
        }
        self.within("queue.ttlMs", self.queue.ttl_ms, 1, u64::MAX, "at least 1")?;
        let bucket = match &self.bucket {
            None => None,
            Some(bucket) => {
                self.within("bucket.rate", bucket.rate, 1, u64::MAX, "at least 1")?;
                self.within("bucket.perMs", bucket.per_ms, 1, u64::MAX, "at least 1")?;
                self.within("bucket.burst", bucket.burst, 1, u64::MAX, "at least 1")?;
                Some(core::BucketSettings {
                    rate: bucket.rate as f64 * 1000.0 / bucket.per_ms as f64,
                    burst: bucket.burst as f64,
                    unit: match bucket.unit {
                        BucketUnit::Requests => core::BucketUnit::Requests,
                        BucketUnit::Tokens => core::BucketUnit::Tokens,
                    },
                })
            }
        };
        Ok(core::ClassSettings {
            name: self.name.as_str().into(),
            tier: match self.tier {
                Tier::Interactive => core::Tier::Interactive,
                Tier::Batch => core::Tier::Batch,
            },
            priority: self.priority,
            weight: self.weight,
            min_share: self.min_share,
            max_share: self.max_share,
            at_least_every: self.at_least_every_ms.map(Duration::from_millis),
            max_in_flight: self.max_in_flight,
            bucket,
            queue: core::QueueSettings {
                max_requests: self.queue.max_requests,
                max_tokens: self.queue.max_tokens,
                max_bytes: self.queue.max_bytes,
                per_tenant: self.queue.per_tenant,
                ttl: Duration::from_millis(self.queue.ttl_ms),
            },
        })
    }

    fn within(
        &self,
        field: &'static str,
        value: u64,
        least: u64,
        most: u64,
        bounds: &'static str,
    ) -> Result<(), PolicyError> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(PolicyError::OutOfBounds {
            class: self.name.clone(),
            field,
            value,
            bounds,
        })
    }
}
