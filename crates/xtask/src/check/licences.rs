//! Licences that may be shipped with an Apache-2.0 product.

use super::metadata::Metadata;

/// Permissive ones, by their SPDX names.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The crates of others whose licence isn't allowed.
pub fn faults(metadata: &Metadata) -> Vec<String> {
    metadata
        .packages
        .iter()
        .filter_map(|package| {
            let licence = match package.license.as_deref() {
                None => "no licence in its manifest",
                Some(licence) if allowed(licence) => return None,
                Some(licence) => licence,
            };
            let users: Vec<&str> = metadata.users(&package.name).collect();
            Some(format!(
                "{} {} has {licence}, which isn't allowed (it comes in through {}): use another crate, or have the licence looked at and add it to crates/xtask/src/check/licences.rs",
                package.name,
                package.version,
                users.join(", ")
            ))
        })
        .collect()
}

/// Whether an SPDX expression can be met by allowed licences: one side of each `OR` (or `/`, as
/// old manifests write it), both of each `AND`.
fn allowed(expression: &str) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = alternatives(&mut words);
    met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn alternatives(words: &mut Words<'_>) -> bool {
    let mut met = all(words);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words);
    }
    met
}

fn all(words: &mut Words<'_>) -> bool {
    let mut met = one(words);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words);
    }
    met
}

fn one(words: &mut Words<'_>) -> bool {
    match words.next() {
        Some("(") => alternatives(words) && words.next() == Some(")"),
        Some(name) => {
            if words.next_if_eq(&"WITH").is_some() {
                let exception = words.next().unwrap_or_default();
                return ALLOWED.contains(&format!("{name} WITH {exception}").as_str());
            }
            ALLOWED.contains(&name)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::metadata::samples::{package, workspace};
    use super::*;

    #[test]
    fn expressions_are_read_as_they_are_meant() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "Apache-2.0 / MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "GPL-3.0 OR MIT AND ISC",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "GPL-3.0 WITH LLVM-exception",
            "(MIT OR ISC) AND (GPL-3.0 OR AGPL-3.0)",
            "",
            "MIT)",
            "(MIT",
            "MIT Apache-2.0",
        ] {
            assert!(!allowed(bad), "{bad}");
        }
    }

    #[test]
    fn a_crate_that_may_not_be_shipped_is_named_with_who_brings_it() {
        let metadata = workspace(vec![
            package("fairtide-api", Some("Apache-2.0"), &["sharing"]),
            package("sharing", Some("AGPL-3.0"), &[]),
            package("silent", None, &[]),
        ]);
        let faults = faults(&metadata);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(
            faults[0].starts_with("sharing 1.2.3 has AGPL-3.0"),
            "{faults:?}"
        );
        assert!(faults[0].contains("through fairtide-api"), "{faults:?}");
        assert!(faults[1].contains("no licence"), "{faults:?}");
    }
}
