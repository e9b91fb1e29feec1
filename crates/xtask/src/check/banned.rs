//! Crates that must not come in, not even through others.

use super::metadata::Metadata;

const BANNED: &[(&str, &str)] = &[
    (
        "aws-lc-rs",
        "TLS is rustls on ring: turn off default features and turn on `ring`",
    ),
    (
        "aws-lc-sys",
        "TLS is rustls on ring: turn off default features and turn on `ring`",
    ),
    (
        "openssl-sys",
        "TLS is rustls on ring: choose the rustls feature",
    ),
    (
        "native-tls",
        "TLS is rustls on ring: choose the rustls feature",
    ),
    (
        "serde_yml",
        "it is unsound and unmaintained: use serde_yaml of the workspace, which is yaml_serde",
    ),
    (
        "serde_yaml",
        "the original is archived: use serde_yaml of the workspace, which is yaml_serde",
    ),
];

/// The banned crates that are there, each with who uses it and what to do.
pub fn faults(metadata: &Metadata) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, instead) in BANNED {
        if metadata
            .packages
            .iter()
            .any(|package| package.name == *name)
        {
            let users: Vec<&str> = metadata.users(name).collect();
            faults.push(format!(
                "{name} comes in through {}: {instead}",
                users.join(", ")
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::metadata::samples::{package, workspace};
    use super::*;

    #[test]
    fn a_banned_crate_is_named_with_who_brings_it() {
        let metadata = workspace(vec![
            package("fairtide-sidecar", None, &["rustls"]),
            package("rustls", None, &["aws-lc-rs"]),
            package("aws-lc-rs", None, &[]),
        ]);
        assert_eq!(
            faults(&metadata),
            [
                "aws-lc-rs comes in through rustls: TLS is rustls on ring: turn off default features and turn on `ring`"
            ]
        );
    }

    #[test]
    fn a_dependency_that_is_never_built_is_none() {
        let metadata = workspace(vec![package("rustls", None, &["aws-lc-rs"])]);
        assert_eq!(faults(&metadata), [""; 0]);
    }
}
