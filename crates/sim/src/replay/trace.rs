//! Rows of public traces and of our own recordings, one at a time: a file may be larger than the
//! memory. The format is told by the first line.
//!
//! Every trace begins at 0 with its first row. Rows must be in the order of time, because a file
//! that is read once can't be sorted; one that isn't is refused with the line.

mod columns;
mod json;
mod lines;

use columns::Columns;
use lines::Lines;
use std::{
    fs::File,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

/// How the rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// CSV with `TIMESTAMP,ContextTokens,GeneratedTokens`.
    AzureLlm,
    /// CSV with `Timestamp`, `Request tokens`, `Response tokens`, and more.
    BurstGpt,
    /// JSON lines with `timestamp`, `input_length`, `output_length`.
    Mooncake,
    /// JSON lines with `at_ms`, `prompt_tokens`, `output_tokens`.
    Recording,
}

/// One request of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Since the first row.
    pub at: Duration,
    /// Length of the prompt.
    pub prompt_tokens: u64,
    /// Length of the answer; 0 where the request failed.
    pub output_tokens: u64,
    /// Its class, where the trace knows it.
    pub class: Option<String>,
    /// Its tenant, where the trace knows it.
    pub tenant: Option<String>,
    /// `Log Type` of BurstGPT.
    pub log_type: Option<String>,
    /// The model that was asked.
    pub model: Option<String>,
    /// What names the blocks of its prompt, so that equal beginnings can be found.
    pub blocks: Vec<u64>,
}

/// Why a trace can't be replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file can't be read.
    #[error("can't read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It has no rows.
    #[error("{} is empty; give a trace with at least one row", .0.display())]
    Empty(PathBuf),
    /// No format has such a first line.
    #[error("{}, line 1: this is no trace of a known format; write the CSV header of an Azure LLM trace (TIMESTAMP,ContextTokens,GeneratedTokens) or of BurstGPT (Timestamp,..,Request tokens,Response tokens,..), or JSON lines with input_length (Mooncake) or prompt_tokens (a recording)", .0.display())]
    UnknownFormat(PathBuf),
    /// A column isn't there.
    #[error("{}, line 1: there is no column {column}; write a header with {column}", path.display())]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// Its name.
        column: &'static str,
    },
    /// A value is wrong.
    #[error("{}, line {line}, column {column}: {wrong}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// Its name.
        column: &'static str,
        /// What is wrong, and what to write.
        wrong: String,
    },
    /// A line isn't a row.
    #[error("{}, line {line}: {wrong}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong, and what to write.
        wrong: String,
    },
}

/// A value that is wrong: the column, and what to write.
type Wrong = (&'static str, String);

#[derive(Debug)]
enum Reader {
    Columns(Columns),
    Json {
        format: Format,
        first: Option<String>,
    },
}

/// An open trace.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    format: Format,
    reader: Reader,
    lines: Lines<File>,
    line: u64,
    zero: Option<f64>,
    last: f64,
}

// === impl Trace ===

impl Trace {
    /// Opens a file and tells its format.
    ///
    /// # Errors
    /// It can't be read, is empty, or is no trace.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let unreadable = |source| TraceError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(unreadable)?;
        let mut lines = Lines::of(file);
        let first = match lines.next() {
            None => return Err(TraceError::Empty(path.to_owned())),
            Some(Err(error)) if error.kind() == ErrorKind::InvalidData => {
                return Err(TraceError::UnknownFormat(path.to_owned()));
            }
            Some(line) => line.map_err(unreadable)?,
        };
        let first = first.trim_start_matches('\u{feff}').trim().to_owned();
        let (format, reader, line) = if first.starts_with('{') {
            let format = match () {
                () if first.contains("\"input_length\"") => Format::Mooncake,
                () if first.contains("\"prompt_tokens\"") => Format::Recording,
                () => return Err(TraceError::UnknownFormat(path.to_owned())),
            };
            let first = Some(first);
            (format, Reader::Json { format, first }, 0)
        } else {
            let columns = Columns::of(&first, path)?;
            (columns.format(), Reader::Columns(columns), 1)
        };
        Ok(Self {
            path: path.to_owned(),
            format,
            reader,
            lines,
            line,
            zero: None,
            last: 0.0,
        })
    }

    /// How its rows are written.
    pub fn format(&self) -> Format {
        self.format
    }

    fn next_line(&mut self) -> Option<std::io::Result<String>> {
        self.line += 1;
        if let Reader::Json { first, .. } = &mut self.reader
            && let Some(first) = first.take()
        {
            return Some(Ok(first));
        }
        self.lines.next()
    }

    fn row(&mut self, text: &str) -> Result<Row, TraceError> {
        let read = match &mut self.reader {
            Reader::Columns(columns) => columns.row(text),
            Reader::Json { format, .. } => json::row(*format, text),
        };
        let (seconds, mut row) = read.map_err(|(column, wrong)| self.wrong(column, wrong))?;
        let zero = *self.zero.get_or_insert(seconds);
        let at = seconds - zero;
        if at < self.last {
            let column = self.time_column();
            let wrong = "is before the row above it; sort the rows by time".to_owned();
            return Err(self.wrong(column, wrong));
        }
        self.last = at;
        row.at = Duration::try_from_secs_f64(at).map_err(|_| {
            self.wrong(
                self.time_column(),
                "is no time that can be replayed; write one near the first row's".to_owned(),
            )
        })?;
        Ok(row)
    }

    fn time_column(&self) -> &'static str {
        match self.format {
            Format::AzureLlm => "TIMESTAMP",
            Format::BurstGpt => "Timestamp",
            Format::Mooncake => "timestamp",
            Format::Recording => "at_ms",
        }
    }

    fn wrong(&self, column: &'static str, wrong: String) -> TraceError {
        let (path, line) = (self.path.clone(), self.line);
        match column {
            "" => TraceError::Line { path, line, wrong },
            column => TraceError::Value {
                path,
                line,
                column,
                wrong,
            },
        }
    }
}

impl Iterator for Trace {
    type Item = Result<Row, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let text = match self.next_line() {
                None if self.zero.is_none() => {
                    self.zero = Some(0.0);
                    return Some(Err(TraceError::Empty(self.path.clone())));
                }
                None => return None,
                Some(Ok(text)) => text,
                Some(Err(wrong)) if wrong.kind() == ErrorKind::InvalidData => {
                    return Some(Err(self.wrong("", wrong.to_string())));
                }
                Some(Err(source)) => {
                    let path = self.path.clone();
                    return Some(Err(TraceError::Unreadable { path, source }));
                }
            };
            if !text.trim().is_empty() {
                return Some(self.row(text.trim()));
            }
        }
    }
}
