//! The lines of a file, each of a bounded length: what is no trace may be one line of many GB.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};

/// Rows of public traces have less than 10 kB.
const MOST_BYTES: u64 = 1 << 20;

/// Reads a file line by line.
#[derive(Debug)]
pub(super) struct Lines<R>(BufReader<R>);

// === impl Lines ===

impl<R: Read> Lines<R> {
    pub fn of(file: R) -> Self {
        Self(BufReader::new(file))
    }
}

impl<R: Read> Iterator for Lines<R> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.0).take(MOST_BYTES);
        match bounded.read_until(b'\n', &mut line) {
            Err(error) => return Some(Err(error)),
            Ok(0) => return None,
            Ok(_) => {}
        }
        let is_cut = line.len() as u64 == MOST_BYTES && line.last() != Some(&b'\n');
        let text = match is_cut {
            true => Err("is longer than 1 MiB; write one row in each line"),
            false => String::from_utf8(line).map_err(|_| "is no text; write UTF-8"),
        };
        Some(text.map_err(|wrong| Error::new(ErrorKind::InvalidData, wrong)))
    }
}
