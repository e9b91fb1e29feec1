//! Which engine is imitated, and which version of it: paths, shapes and the names of metrics differ.

use std::{fmt, str::FromStr};

/// An inference server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// vLLM.
    #[default]
    Vllm,
    /// Hugging Face's text-generation-inference.
    Tgi,
    /// SGLang.
    Sglang,
}

/// Major, minor and patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

/// An engine in one of its versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imitated {
    kind: Kind,
    version: Version,
}

/// A version that isn't known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {asked} isn't known here; write a version from {oldest} up, such as {usual}")]
pub struct UnknownVersion {
    kind: Kind,
    asked: Version,
    oldest: Version,
    usual: Version,
}

// === impl Imitated ===

impl Imitated {
    /// That engine, in the version that its shapes were taken from where none is asked for.
    ///
    /// # Errors
    /// Nothing is known of so old a version.
    pub fn new(kind: Kind, version: Option<Version>) -> Result<Self, UnknownVersion> {
        let (oldest, usual) = match kind {
            // The first whose pages carry an `engine` label.
            Kind::Vllm => (Version(0, 8, 5), Version(0, 32, 0)),
            Kind::Tgi => (Version(3, 0, 0), Version(3, 3, 6)),
            Kind::Sglang => (Version(0, 4, 0), Version(0, 5, 23)),
        };
        match version {
            Some(asked) if asked < oldest => Err(UnknownVersion {
                kind,
                asked,
                oldest,
                usual,
            }),
            version => Ok(Self {
                kind,
                version: version.unwrap_or(usual),
            }),
        }
    }

    /// The engine.
    pub fn kind(self) -> Kind {
        self.kind
    }

    /// Its version.
    pub fn version(self) -> Version {
        self.version
    }

    /// Whether the version is that or a later one.
    pub(super) fn since(self, major: u32, minor: u32, patch: u32) -> bool {
        self.version >= Version(major, minor, patch)
    }
}

impl Default for Imitated {
    fn default() -> Self {
        Self {
            kind: Kind::Vllm,
            version: Version(0, 32, 0),
        }
    }
}

// === impl Kind ===

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vllm => "vLLM",
            Self::Tgi => "TGI",
            Self::Sglang => "SGLang",
        })
    }
}

// === impl Version ===

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u32>> = text
            .trim_start_matches('v')
            .split('.')
            .map(|part| part.parse().ok())
            .collect();
        match numbers.as_deref() {
            Some([major, minor]) => Ok(Self(*major, *minor, 0)),
            Some([major, minor, patch]) => Ok(Self(*major, *minor, *patch)),
            _ => Err("write a version of two or three numbers, such as 0.32.0".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_number_and_old_ones_are_refused_with_what_to_write() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("0.9.2") < version("0.10"));
        assert_eq!(version("v0.32.0"), Version(0, 32, 0));
        assert!("0".parse::<Version>().is_err());
        assert!("0.32.x".parse::<Version>().is_err());
        let error = Imitated::new(Kind::Vllm, Some(version("0.6"))).expect_err("it is too old");
        assert_eq!(
            error.to_string(),
            "vLLM 0.6.0 isn't known here; write a version from 0.8.5 up, such as 0.32.0"
        );
        assert_eq!(Imitated::new(Kind::Vllm, None), Ok(Imitated::default()));
    }
}
