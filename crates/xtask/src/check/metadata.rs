//! What of `cargo metadata` the checks read.

use crate::generated::root;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::{collections::BTreeSet, process::Command};

/// The workspace and everything that it is built of.
#[derive(Debug, Default, Deserialize)]
pub struct Metadata {
    pub packages: Vec<Package>,
    pub workspace_members: BTreeSet<String>,
}

/// One crate.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Package {
    pub id: String,
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    pub dependencies: Vec<Dependency>,
}

/// One crate's use of another, as its manifest says.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Dependency {
    pub name: String,
    /// `None`: a normal one; else `dev` or `build`.
    pub kind: Option<String>,
}

// === impl Metadata ===

impl Metadata {
    /// Asks cargo.
    pub fn of_workspace() -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--locked"])
            .current_dir(root())
            .output()
            .context("running cargo metadata")?;
        if !output.status.success() {
            bail!(
                "cargo metadata: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        serde_json::from_slice(&output.stdout).context("reading cargo metadata")
    }

    /// The crates of this repository.
    pub fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Who uses a crate, whatever for.
    pub fn users<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.packages
            .iter()
            .filter(move |package| package.dependencies.iter().any(|d| d.name == name))
            .map(|package| package.name.as_str())
    }
}

// === impl Package ===

impl Package {
    /// What is built into the crate itself; tests may use anything.
    pub fn built_in(&self) -> impl Iterator<Item = &str> {
        self.dependencies
            .iter()
            .filter(|dependency| dependency.kind.as_deref() != Some("dev"))
            .map(|dependency| dependency.name.as_str())
    }
}

#[cfg(test)]
pub mod samples {
    use super::*;

    /// A crate that uses others, with `dev:` in front for its tests alone.
    pub fn package(name: &str, license: Option<&str>, uses: &[&str]) -> Package {
        let dependency = |name: &&str| {
            let (kind, name) = match name.strip_prefix("dev:") {
                Some(name) => (Some("dev".to_owned()), name),
                None => (None, *name),
            };
            Dependency {
                name: name.to_owned(),
                kind,
            }
        };
        Package {
            id: name.to_owned(),
            name: name.to_owned(),
            version: "1.2.3".to_owned(),
            license: license.map(str::to_owned),
            dependencies: uses.iter().map(dependency).collect(),
        }
    }

    /// A workspace of crates that are ours where their name begins so.
    pub fn workspace(packages: Vec<Package>) -> Metadata {
        let ours = |package: &&Package| package.name.starts_with("fairtide-");
        Metadata {
            workspace_members: packages.iter().filter(ours).map(|p| p.id.clone()).collect(),
            packages,
        }
    }
}
