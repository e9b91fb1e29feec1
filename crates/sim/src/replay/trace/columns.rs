//! The two CSV formats. Columns are found by the names in the header, since older BurstGPT files
//! have fewer of them; neither format quotes its fields.

use super::{Format, Row, TraceError, Wrong};
use std::path::Path;

/// Where the columns are.
#[derive(Debug)]
pub(super) struct Columns {
    format: Format,
    count: usize,
    time: usize,
    prompt: usize,
    output: usize,
    log_type: Option<usize>,
    model: Option<usize>,
    session: Option<usize>,
}

// === impl Columns ===

impl Columns {
    pub fn of(header: &str, path: &Path) -> Result<Self, TraceError> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let at = |name: &str| names.iter().position(|other| *other == name);
        let (format, [time, prompt, output]) =
            if at("ContextTokens").is_some() || at("TIMESTAMP").is_some() {
                let names = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];
                (Format::AzureLlm, names)
            } else if at("Request tokens").is_some() || at("Timestamp").is_some() {
                let names = ["Timestamp", "Request tokens", "Response tokens"];
                (Format::BurstGpt, names)
            } else {
                return Err(TraceError::UnknownFormat(path.to_owned()));
            };
        let required = |column: &'static str| {
            at(column).ok_or_else(|| TraceError::MissingColumn {
                path: path.to_owned(),
                column,
            })
        };
        Ok(Self {
            format,
            count: names.len(),
            time: required(time)?,
            prompt: required(prompt)?,
            output: required(output)?,
            log_type: at("Log Type"),
            model: at("Model"),
            session: at("Session ID"),
        })
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The time in seconds since whenever, and the rest.
    pub fn row(&self, text: &str) -> Result<(f64, Row), Wrong> {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if fields.len() != self.count {
            let (has, count) = (fields.len(), self.count);
            return Err((
                "",
                format!("has {has} fields where the header has {count}; write one for each"),
            ));
        }
        let optional = |at: Option<usize>| {
            let text = at.map(|at| fields[at]).filter(|text| !text.is_empty());
            text.map(str::to_owned)
        };
        let (time, prompt, output) = match self.format {
            Format::AzureLlm => (
                azure_time(fields[self.time])?,
                "ContextTokens",
                "GeneratedTokens",
            ),
            _ => (
                seconds(fields[self.time])?,
                "Request tokens",
                "Response tokens",
            ),
        };
        let row = Row {
            prompt_tokens: tokens(prompt, fields[self.prompt])?,
            output_tokens: tokens(output, fields[self.output])?,
            tenant: optional(self.session),
            log_type: optional(self.log_type),
            model: optional(self.model),
            ..Row::default()
        };
        Ok((time, row))
    }
}

/// `2023-11-16 18:15:46.6805900`; the week of 2024 has an offset behind it, always +00:00.
fn azure_time(text: &str) -> Result<f64, Wrong> {
    let bare = text.trim_end_matches('Z');
    let bare = bare.strip_suffix("+00:00").unwrap_or(bare);
    let time: jiff::civil::DateTime = bare.parse().map_err(|_| {
        let wrong = format!("{text:?} is no time; write one such as 2023-11-16 18:15:46.6805900");
        ("TIMESTAMP", wrong)
    })?;
    let since = time.duration_since(jiff::civil::date(2020, 1, 1).at(0, 0, 0, 0));
    Ok(since.as_secs_f64())
}

fn seconds(text: &str) -> Result<f64, Wrong> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| {
        let wrong = format!("{text:?} is no time; write seconds, such as 12.5");
        ("Timestamp", wrong)
    })
}

fn tokens(column: &'static str, text: &str) -> Result<u64, Wrong> {
    let whole = text.strip_suffix(".0").unwrap_or(text);
    whole.parse().map_err(|_| {
        let wrong = format!("{text:?} is no length; write a number of tokens from 0 up");
        (column, wrong)
    })
}
