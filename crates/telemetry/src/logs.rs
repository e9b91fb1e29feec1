//! Log setup. One JSON object a line, as collectors want it; text where a person looks on.
//! Logs go to stderr: stdout belongs to what a command was asked for.

use std::{io::IsTerminal, str::FromStr};
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Why logs couldn't be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level isn't one.
    #[error("log level {0:?}: write error, warn, info, debug or trace, or target=level,...")]
    Level(String),
    /// Somebody set up logs before.
    #[error("logs are set up already")]
    Twice,
}

/// A format's name isn't one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("write auto, json or text")]
pub struct UnknownFormat;

// === impl LogFormat ===

impl FromStr for LogFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        match name {
            "auto" => Ok(Self::Auto),
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err(UnknownFormat),
        }
    }
}

/// Sends the logs of this process to stderr from now on. `level` is a level, or a list of
/// `target=level`.
///
/// # Errors
/// The level can't be understood, or logs were set up before.
pub fn init(level: &str, format: LogFormat) -> Result<(), LogError> {
    let filter = filter(level)?;
    let json = match format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Json => true,
        LogFormat::Text => false,
    };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let done = if json {
        logs.json().flatten_event(true).try_init()
    } else {
        logs.try_init()
    };
    done.map_err(|_| LogError::Twice)
}

fn filter(level: &str) -> Result<EnvFilter, LogError> {
    let wrong = || LogError::Level(level.to_owned());
    // A lone word that is no level would be read as a target, and silence everything else.
    if !level.contains('=') && level.parse::<tracing::Level>().is_err() {
        return Err(wrong());
    }
    EnvFilter::try_new(level).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_none_is_named() {
        assert!(filter("info").is_ok());
        assert!(filter("info,fairtide_sidecar=debug").is_ok());
        let error = filter("loud").expect_err("no level").to_string();
        assert!(error.contains("loud") && error.contains("debug"), "{error}");
        assert!(filter("a=b=c").is_err());
    }

    #[test]
    fn formats_have_names() {
        assert_eq!("json".parse(), Ok(LogFormat::Json));
        assert_eq!("JSON".parse::<LogFormat>(), Err(UnknownFormat));
    }
}
