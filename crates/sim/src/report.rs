//! What a run leaves behind beside its figures, and the page that shows it.
//!
//! [`Curve`]s say how times are distributed, a [`Recorder`] how things went over time: both are of
//! a bounded size, however long the run was.

mod curve;
mod recorder;

pub use curve::{Curve, Curves};
pub use recorder::{ClassTimeline, Recorder, TimelineRun};
