//! What a run leaves behind beside its figures, and the page that shows it.
//!
//! [`Curve`]s say how times are distributed, a [`Recorder`] how things went over time: both are of
//! a bounded size, however long the run was. [`page`] makes one HTML file of runs, which needs
//! nothing else: no network, no script.

mod curve;
mod page;
mod recorder;

pub use curve::{Curve, Curves};
pub use page::{Head, page};
pub use recorder::{ClassTimeline, Recorder, TimelineRun};
