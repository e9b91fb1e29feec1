//! The words by which requests end. What each means stands beside it in the scheduler's source,
//! as documentation that only the compiler's own tools can reach; so it is read from the source,
//! and held against the words that the compiled code knows.

use anyhow::{Result, ensure};
use fairtide_scheduler::{Outcome, Reason};
use std::{collections::BTreeMap, fmt::Write};

const SOURCE: &str = include_str!("../../../scheduler/src/outcome.rs");

const INTRODUCTION: &str = "\
# Outcomes and reasons

<!-- Generated from crates/scheduler by `make docs`; edit there. -->

Each request ends in exactly one outcome. The same word is in the header `x-fairtide-outcome`, in the metrics and in the logs.
`x-fairtide-reason` names the limit or rule that decided.

429 is for all that is about a class or a tenant; 503 only says that the pod can serve nobody, because meshes retry and eject on
it. Where no status is given, the client gets the engine's own answer, or has left.
";

/// The page.
pub fn page() -> Result<String> {
    let meanings = meanings(SOURCE);
    let meaning = |word: &str| -> Result<&str> {
        let meaning = meanings.get(word).map_or("", String::as_str);
        ensure!(
            !meaning.is_empty(),
            "no documentation of {word:?} in crates/scheduler/src/outcome.rs: write a /// line above it"
        );
        Ok(meaning)
    };
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## Outcomes\n\n| outcome | status | refused by Fairtide | meaning |\n| --- | --- | --- | --- |\n");
    for outcome in Outcome::ALL {
        let word = outcome.as_str();
        let status = outcome.status().map(|status| status.to_string());
        let refused = if outcome.is_refusal() { "yes" } else { "no" };
        writeln!(
            page,
            "| `{word}` | {} | {refused} | {} |",
            status.unwrap_or_default(),
            meaning(word)?
        )?;
    }
    page.push_str("\n## Reasons\n\n| reason | meaning |\n| --- | --- |\n");
    for reason in Reason::ALL {
        let word = reason.as_str();
        writeln!(page, "| `{word}` | {} |", meaning(word)?)?;
    }
    Ok(page)
}

/// The documentation above each `Variant => "word",`.
fn meanings(source: &str) -> BTreeMap<&str, String> {
    let mut meanings = BTreeMap::new();
    let mut lines = Vec::new();
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            lines.push(text.trim());
            continue;
        }
        let word = line
            .split_once("=> \"")
            .and_then(|(_, rest)| rest.strip_suffix("\","));
        if let Some(word) = word {
            meanings.insert(word, lines.join(" "));
        }
        lines.clear();
    }
    meanings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_takes_the_lines_right_above_it() {
        let source = "/// Of the type.\nenum {\n  /// First,\n  /// and more.\n  A => \"a\",\n  B => \"b\",\n}";
        let meanings = meanings(source);
        assert_eq!(meanings["a"], "First, and more.");
        assert_eq!(meanings["b"], "");
    }

    #[test]
    fn every_word_is_explained() {
        let page = page().unwrap();
        assert!(page.contains("| `bucket_empty` | 429 | yes | "));
        assert!(page.contains("| `completed` |  | no | "));
    }
}
