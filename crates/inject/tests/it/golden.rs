//! Each pod in `tests/golden` beside what becomes of it. After a change that is meant:
//! `UPDATE_GOLDEN=1 cargo test -p fairtide-inject`, and read the difference.

use super::fixtures::{self, Fixture};
use fairtide_inject::{Outcome, inject};
use serde_json::{Value, json};
use std::fs;

#[test]
fn every_pod_becomes_what_is_written_beside_it() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for fixture in fixtures::all() {
        let result = result(&fixture);
        let file = fixtures::folder().join(format!("{}.expected.yaml", fixture.name));
        if update {
            fs::write(&file, fixtures::yaml(&result)).expect("the folder can be written");
            continue;
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        let expected = fixtures::documents(&expected).pop().unwrap_or_default();
        if expected != result {
            wrong.push(format!("{}:\n{}", fixture.name, fixtures::yaml(&result)));
        }
    }
    assert!(wrong.is_empty(), "not as expected:\n{}", wrong.join("\n"));
}

#[test]
fn every_expectation_has_its_pod() {
    for entry in fs::read_dir(fixtures::folder()).expect("the folder") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("a plain name");
        if let Some(of) = name.strip_suffix(".expected.yaml") {
            let pod = fixtures::folder().join(format!("{of}.yaml"));
            assert!(pod.exists(), "{name} has no pod");
        }
    }
}

fn result(fixture: &Fixture) -> Value {
    let injection = match inject(&fixture.pod, &fixture.context) {
        Ok(injection) => injection,
        Err(refusal) => {
            return json!({ "refused": {
                "reason": refusal.reason(),
                "message": refusal.to_string(),
            }});
        }
    };
    let warnings = injection.warnings.iter().map(ToString::to_string);
    let warnings: Vec<String> = warnings.collect();
    let mut pod = fixture.pod.clone();
    injection.patch.apply(&mut pod).expect("the patch fits");
    match injection.outcome {
        Outcome::Skipped(skip) => json!({ "skipped": skip.to_string() }),
        Outcome::Kept(_) => json!({ "kept": pod, "warnings": warnings, "patch": injection.patch }),
        Outcome::Injected(status) => {
            let mut result = json!({ "injected": pod, "warnings": warnings });
            hide_version(&mut result["injected"], &status.version);
            result
        }
    }
}

/// A release isn't to change a hundred files.
fn hide_version(pod: &mut Value, version: &str) {
    let status = &mut pod["metadata"]["annotations"]["fairtide.dev/status"];
    let text = status.as_str().expect("a status");
    let from = format!("\"version\":\"{version}\"");
    assert!(text.contains(&from), "{text}");
    *status = json!(text.replace(&from, "\"version\":\"*\""));
}
