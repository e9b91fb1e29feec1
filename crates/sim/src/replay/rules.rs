//! Which class and tenant a row of a trace belongs to. Public traces know neither, so that a file
//! of rules says it; the first rule that fits a row decides.

use super::trace::Row;
use serde::Deserialize;
use std::path::Path;

/// A file of rules.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rules {
    rules: Vec<Rule>,
}

/// All conditions that are set must hold; without any it fits every row.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    /// The name of the trace's file, without folders.
    #[serde(default)]
    file: Option<String>,
    /// `Log Type` of BurstGPT.
    #[serde(default)]
    log_type: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    min_prompt_tokens: Option<u64>,
    #[serde(default)]
    min_output_tokens: Option<u64>,
    /// The class; unset: as without the rule.
    #[serde(default)]
    class: Option<String>,
    /// The tenant; unset: as without the rule.
    #[serde(default)]
    tenant: Option<String>,
}

/// Why rules can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The file can't be read.
    #[error("can't read the rules {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// They aren't rules.
    #[error("the rules {path} are not right: {reason}")]
    Malformed {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

// === impl Rules ===

impl Rules {
    /// Reads a file of rules.
    ///
    /// # Errors
    /// It can't be read, or holds something else.
    pub fn load(path: &Path) -> Result<Self, RulesError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&name, &text),
            Err(source) => Err(RulesError::Unreadable { path: name, source }),
        }
    }

    /// Reads rules; `path` names them in errors.
    ///
    /// # Errors
    /// The text holds something else.
    pub fn parse(path: &str, text: &str) -> Result<Self, RulesError> {
        serde_yaml::from_str(text).map_err(|error| RulesError::Malformed {
            path: path.to_owned(),
            reason: error.to_string(),
        })
    }

    /// The classes that rules name.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter_map(|rule| rule.class.as_deref())
    }

    /// Lets the first rule that fits a row of that file decide.
    pub(super) fn apply(&self, file: &str, row: &mut Row) {
        let Some(rule) = self.rules.iter().find(|rule| rule.fits(file, row)) else {
            return;
        };
        if rule.class.is_some() {
            row.class.clone_from(&rule.class);
        }
        if rule.tenant.is_some() {
            row.tenant.clone_from(&rule.tenant);
        }
    }
}

// === impl Rule ===

impl Rule {
    fn fits(&self, file: &str, row: &Row) -> bool {
        let equal = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| is == Some(wanted))
        };
        equal(&self.file, Some(file))
            && equal(&self.log_type, row.log_type.as_deref())
            && equal(&self.model, row.model.as_deref())
            && self
                .min_prompt_tokens
                .is_none_or(|least| row.prompt_tokens >= least)
            && self
                .min_output_tokens
                .is_none_or(|least| row.output_tokens >= least)
    }
}
