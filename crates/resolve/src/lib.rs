//! From the objects that users write to the policies that sidecars obey, and the other way round:
//! what is to be said about each object. Pure: the same objects give the same answer, whoever asks,
//! in whatever order they come. Only [`read_manifests`] touches the disk.

#![deny(missing_docs)]

mod finding;
mod key;
mod manifests;
mod resolve;

pub use finding::{Finding, Status, Warning};
pub use key::{ObjectKey, PodMeta};
pub use manifests::{
    ManifestError, ManifestProblem, Manifests, Origin, Unreadable, parse_manifests, read_manifests,
};
pub use resolve::{Resolved, ResolvedClass, ResolvedPool, resolve};
