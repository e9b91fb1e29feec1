//! Which crate of ours may use which, and what the pure ones must do without.

use super::metadata::Metadata;

/// The allowed arrows. A crate that isn't here may use none of ours.
const ARROWS: &[(&str, &[&str])] = &[
    ("policy", &["scheduler"]),
    ("inject", &["policy"]),
    ("resolve", &["policy", "api"]),
    (
        "sidecar",
        &[
            "scheduler",
            "policy",
            "resolve",
            "api",
            "engine",
            "telemetry",
        ],
    ),
    (
        "operator",
        &["policy", "resolve", "api", "inject", "telemetry"],
    ),
    (
        "sim",
        &[
            "scheduler",
            "policy",
            "resolve",
            "api",
            "engine",
            "telemetry",
        ],
    ),
    ("cli", &["resolve", "api", "inject", "sim"]),
];

/// For development only: they may use anything, and nothing that ships may use them.
const FREE: &[&str] = &["testkit", "xtask"];

/// Crates that decide and compute, and neither wait nor touch the network.
const PURE: &[&str] = &["scheduler", "policy", "resolve", "inject", "api"];
const IMPURE: &[&str] = &[
    "tokio",
    "hyper",
    "hyper-util",
    "axum",
    "kube-client",
    "reqwest",
];

const PREFIX: &str = "fairtide-";

/// The arrows that aren't allowed, each with what to do.
pub fn faults(metadata: &Metadata) -> Vec<String> {
    let mut faults = Vec::new();
    for package in metadata.ours() {
        let from = short(&package.name);
        if FREE.contains(&from) {
            continue;
        }
        let allowed = ARROWS
            .iter()
            .find(|(name, _)| *name == from)
            .map_or(&[][..], |(_, allowed)| allowed);
        for used in package.built_in() {
            let to = short(used);
            if used.starts_with(PREFIX) && !allowed.contains(&to) {
                faults.push(not_allowed(from, to, allowed));
            }
            if PURE.contains(&from) && IMPURE.contains(&used) {
                faults.push(format!(
                    "{from} uses {used}, but is pure: do the waiting and the I/O in sidecar or operator, and pass it the results"
                ));
            }
        }
    }
    faults
}

fn not_allowed(from: &str, to: &str, allowed: &[&str]) -> String {
    let may = match allowed {
        [] => "none of ours".to_owned(),
        allowed => allowed.join(", "),
    };
    let hint = match to {
        to if FREE.contains(&to) => format!("move {to} to [dev-dependencies]"),
        _ => format!("move what {from} needs into a crate that it may use, or pass it in as data"),
    };
    format!("{from} → {to} is no allowed arrow ({from} may use {may}): {hint}")
}

fn short(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::super::metadata::samples::{package, workspace};
    use super::*;

    fn faults_of(name: &str, uses: &[&str]) -> Vec<String> {
        faults(&workspace(vec![package(name, None, uses)]))
    }

    #[test]
    fn an_arrow_that_is_not_drawn_is_refused_with_what_to_do() {
        assert_eq!(
            faults_of(
                "fairtide-policy",
                &["fairtide-scheduler", "fairtide-api", "serde"]
            ),
            [
                "policy → api is no allowed arrow (policy may use scheduler): move what policy needs into a crate that it may use, or pass it in as data"
            ]
        );
        assert_eq!(
            faults_of("fairtide-scheduler", &["fairtide-policy"]).len(),
            1
        );
        assert_eq!(
            faults_of("fairtide-newcomer", &["fairtide-policy"]).len(),
            1
        );
    }

    #[test]
    fn tests_may_use_anything_but_what_ships_may_not_use_the_testkit() {
        assert_eq!(
            faults_of("fairtide-api", &["dev:fairtide-testkit"]),
            [""; 0]
        );
        assert_eq!(
            faults_of("fairtide-testkit", &["fairtide-operator"]),
            [""; 0]
        );
        assert!(
            faults_of("fairtide-sidecar", &["fairtide-testkit"])[0].contains("[dev-dependencies]")
        );
    }

    #[test]
    fn pure_crates_stay_pure() {
        assert!(faults_of("fairtide-scheduler", &["tokio"])[0].starts_with("scheduler uses tokio"));
        assert_eq!(faults_of("fairtide-scheduler", &["dev:tokio"]), [""; 0]);
        assert_eq!(faults_of("fairtide-sidecar", &["tokio"]), [""; 0]);
    }
}
