//! Errors in the log: what failed and why, on one line.

use std::{error::Error, fmt::Write};

/// An error and what caused it, and so on.
pub fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
