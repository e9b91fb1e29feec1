//! That the examples of the repository are valid, and mean what their comments say.

use fairtide_resolve::{Manifests, read_manifests, resolve};
use std::path::Path;

fn read(folder: &str) -> Manifests {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let manifests = read_manifests(&root.join(folder)).unwrap();
    assert_eq!(manifests.errors, []);
    manifests
}

#[test]
fn the_quickstart_is_valid_and_complete() {
    let manifests = read("quickstart");
    assert_eq!(manifests.notes, Vec::<String>::new());
    let resolved = resolve(manifests.pools(), manifests.classes());
    assert_eq!(resolved.warnings, []);
    let conditions = resolved.pools.iter().flat_map(|pool| &pool.conditions);
    let conditions = conditions.chain(resolved.classes.iter().flat_map(|class| &class.conditions));
    for condition in conditions {
        assert_eq!(condition.status.as_str(), "True", "{condition:?}");
        assert!(!condition.is_fault(), "{condition:?}");
    }
    let policy = resolved.pools[0].policy.as_ref().unwrap();
    assert_eq!(policy.default_class, "chat");
    let names: Vec<&str> = policy
        .classes
        .iter()
        .map(|class| class.name.as_str())
        .collect();
    assert_eq!(names, ["batch", "chat"]);
    assert_eq!(policy.class("batch").unwrap().min_share, 10);
}

#[test]
fn every_example_is_valid() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let mut seen = 0;
    for entry in std::fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().file_name().into_string().unwrap();
        let manifests = read(&folder);
        let resolved = resolve(manifests.pools(), manifests.classes());
        let pools = resolved.pools.iter().flat_map(|pool| &pool.conditions);
        let classes = resolved.classes.iter().flat_map(|class| &class.conditions);
        for condition in pools.chain(classes) {
            assert!(!condition.is_fault(), "{folder}: {condition:?}");
        }
        seen += 1;
    }
    assert!(seen > 0);
}
