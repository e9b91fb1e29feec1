//! What is said about each object: its conditions and counts, as values.
//!
//! [`assess`](assess::assess) works out what should be said of a namespace, purely;
//! [`Standing::renewed`] lays that over what is there; [`scribe`] writes what differs. Spec is never
//! written, nor any finalizer.

pub mod assess;
pub mod events;
mod injected;
pub mod scribe;
mod standing;
pub mod writer;

pub use standing::{Counts, Standing};
