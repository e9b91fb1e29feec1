//! Objects from files.

use fairtide_api::names;
use fairtide_resolve::{Manifests, ObjectKey, parse_manifests, read_manifests};
use proptest::prelude::*;
use std::{fs, path::PathBuf};

const POOL: &str = "\
apiVersion: traffic.fairtide.dev/v1alpha1
kind: InferencePool
metadata: {name: llama}
spec: {selector: {matchLabels: {app: vllm}}, targetPorts: [{number: 8000}]}
";

fn class(name: &str, weight: &str) -> String {
    format!(
        "apiVersion: traffic.fairtide.dev/v1alpha1\nkind: TrafficClass\nmetadata: {{name: {name}}}\nspec: {{poolRefs: [{{name: llama}}], tier: Batch, weight: {weight}}}\n"
    )
}

fn said(manifests: &Manifests) -> Vec<String> {
    manifests.errors.iter().map(ToString::to_string).collect()
}

fn classes(manifests: &Manifests) -> Vec<(String, Option<i32>)> {
    manifests
        .classes()
        .map(|class| (class.metadata.name.clone().unwrap(), class.spec.weight))
        .collect()
}

/// A folder of its own for a test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fairtide-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn documents_are_read_one_by_one() {
    let text = format!(
        "# nothing but a comment\n---\n{POOL}---\n---\n{}---\nnull\n",
        class("chat", "3")
    );
    let manifests = parse_manifests("all.yaml", &text);
    assert_eq!(said(&manifests), Vec::<String>::new());
    assert_eq!(manifests.pools().count(), 1);
    assert_eq!(classes(&manifests), [("chat".to_owned(), Some(3))]);
    let pool = manifests.pools().next().unwrap();
    assert_eq!(pool.metadata.namespace.as_deref(), Some("default"));
}

#[test]
fn a_broken_document_does_not_hide_the_others() {
    let text = format!(
        "{POOL}---\n{}---\n{}",
        class("bad", "-1"),
        class("good", "2")
    );
    let manifests = parse_manifests("all.yaml", &text);
    assert_eq!(
        said(&manifests),
        [
            "all.yaml, document 2 (TrafficClass default/bad): spec.weight: must be 1 to 1000000, but is -1"
        ]
    );
    assert_eq!(classes(&manifests), [("good".to_owned(), Some(2))]);
}

#[test]
fn an_unknown_field_is_an_error_and_not_passed_over() {
    let text = class("chat", "3").replace("tier:", "teir:");
    let manifests = parse_manifests("c.yaml", &text);
    assert_eq!(
        said(&manifests),
        [
            "c.yaml, document 1 (TrafficClass default/chat): spec.tier: is missing: write one of \"Interactive\", \"Batch\"; spec.teir: unknown field; did you mean \"tier\"?"
        ]
    );
}

#[test]
fn text_that_is_no_yaml_says_where() {
    let manifests = parse_manifests("c.yaml", &format!("{POOL}---\nkind: [\n"));
    assert_eq!(manifests.pools().count(), 1);
    let said = said(&manifests);
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with("c.yaml, document 2: ") && said[0].contains("line"),
        "{said:?}"
    );
}

#[test]
fn a_key_that_stands_twice_is_an_error() {
    let text = class("chat", "3").replace("tier: Batch", "tier: Batch, tier: Interactive");
    let said = said(&parse_manifests("c.yaml", &text));
    assert!(said[0].contains("duplicate"), "{said:?}");
}

#[test]
fn other_kinds_are_passed_over_with_a_note() {
    let text = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\napiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: b}\nspec: {}\n";
    let manifests = parse_manifests("c.yaml", text);
    assert_eq!(said(&manifests), Vec::<String>::new());
    assert_eq!(manifests.pools().count(), 0);
    assert_eq!(manifests.notes.len(), 2);
    assert!(manifests.notes[1].contains("InferencePool of inference.networking.k8s.io/v1"));
}

#[test]
fn a_slip_in_kind_or_group_is_an_error_and_no_note() {
    let kind = class("chat", "1").replace("kind: TrafficClass", "kind: TraficClass");
    assert_eq!(
        said(&parse_manifests("c.yaml", &kind)),
        ["c.yaml, document 1: kind: no kind \"TraficClass\"; did you mean \"TrafficClass\"?"]
    );
    for version in [
        "traffic.fairtide.dev",
        "traffic.fairtide.dev/v1",
        "trafic.fairtide.dev/v1alpha1",
        "v1",
    ] {
        let text = class("chat", "1").replace(names::API_VERSION, version);
        let said = said(&parse_manifests("c.yaml", &text));
        assert!(
            said[0].contains("apiVersion: must be \"traffic.fairtide.dev/v1alpha1\""),
            "{said:?}"
        );
    }
    let no_object = said(&parse_manifests("c.yaml", "- a\n- b\n"));
    assert_eq!(
        no_object,
        ["c.yaml, document 1: (document): must be an object with apiVersion and kind"]
    );
}

#[test]
fn pods_are_read_for_their_labels() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: prod, labels: {app: vllm}}\nspec: {containers: [{name: a, image: b}]}\n";
    let manifests = parse_manifests("p.yaml", text);
    let pod = manifests.pods().next().unwrap();
    assert_eq!(pod.key, ObjectKey::new("prod", "p"));
    assert_eq!(pod.labels["app"], "vllm");
}

#[test]
fn what_kubectl_get_prints_is_read() {
    let item = |text: String| {
        text.lines()
            .map(|line| format!("  {line}\n"))
            .collect::<String>()
    };
    let text = format!(
        "apiVersion: v1\nkind: List\nitems:\n-\n{}-\n{}",
        item(POOL.to_owned()),
        item(class("chat", "1"))
    );
    let manifests = parse_manifests("list.yaml", &text);
    assert_eq!(said(&manifests), Vec::<String>::new());
    assert_eq!(
        (manifests.pools().count(), manifests.classes().count()),
        (1, 1)
    );
}

#[test]
fn anchors_and_merge_keys_work_as_in_kubectl() {
    let text = class("chat", "1").replace(
        "{poolRefs: [{name: llama}], tier: Batch, weight: 1}",
        "\n  <<: &base {tier: Batch, weight: 4}\n  poolRefs: [{name: llama}]",
    );
    let manifests = parse_manifests("c.yaml", &text);
    assert_eq!(said(&manifests), Vec::<String>::new());
    assert_eq!(classes(&manifests), [("chat".to_owned(), Some(4))]);
}

#[test]
fn an_object_that_is_there_twice_counts_once() {
    let folder = Folder::new("twice");
    folder.put("a.yaml", &class("chat", "1"));
    folder.put("b.yaml", &class("chat", "2"));
    let manifests = read_manifests(&folder.0).unwrap();
    assert_eq!(classes(&manifests), [("chat".to_owned(), Some(1))]);
    assert_eq!(
        said(&manifests),
        [
            "b.yaml, document 1 (TrafficClass default/chat): is already in a.yaml, document 1; leave one of them out"
        ]
    );
}

#[test]
fn only_manifests_of_the_folder_itself_are_read() {
    let folder = Folder::new("which");
    folder.put("b.yml", &class("b", "1"));
    folder.put(
        "a.json",
        &serde_json::to_string(&serde_json::json!({
            "apiVersion": names::API_VERSION, "kind": "TrafficClass", "metadata": { "name": "a" },
            "spec": { "poolRefs": [{ "name": "llama" }], "tier": "Batch" },
        }))
        .unwrap(),
    );
    folder.put("c.yaml", POOL);
    folder.put(".hidden.yaml", &class("hidden", "1"));
    folder.put("notes.txt", "kind: [");
    folder.put("d.yaml~", "kind: [");
    fs::create_dir_all(folder.0.join("deeper.yaml")).unwrap();
    let manifests = read_manifests(&folder.0).unwrap();
    assert_eq!(said(&manifests), Vec::<String>::new());
    let names: Vec<String> = classes(&manifests)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(manifests.pools().count(), 1);
    let one = read_manifests(&folder.0.join("b.yml")).unwrap();
    assert_eq!(classes(&one).len(), 1);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let error = read_manifests("/nowhere/at/all".as_ref()).unwrap_err();
    assert_eq!(error.to_string(), "can't read /nowhere/at/all");
}

#[test]
fn a_broken_edit_leaves_the_object_as_it_was() {
    let good = parse_manifests(
        "c.yaml",
        &format!("{}---\n{}", class("chat", "3"), class("night", "1")),
    );
    let edited = format!("{}---\n{}", class("chat", "-3"), class("night", "2"));
    let broken = parse_manifests("c.yaml", &edited).or_last_good(&good);
    let mut kept = classes(&broken);
    kept.sort();
    assert_eq!(
        kept,
        [("chat".to_owned(), Some(3)), ("night".to_owned(), Some(2))]
    );
    assert_eq!(broken.errors.len(), 1);
    // Also while it stays broken.
    let still = parse_manifests("c.yaml", &edited).or_last_good(&broken);
    assert_eq!(still.classes().count(), 2);
    // An object that is left out is gone.
    let gone = parse_manifests("c.yaml", &class("night", "2")).or_last_good(&still);
    assert_eq!(classes(&gone), [("night".to_owned(), Some(2))]);
}

#[test]
fn a_file_that_is_no_yaml_any_more_keeps_all_that_it_held() {
    let good = parse_manifests(
        "c.yaml",
        &format!("{}---\n{}", class("chat", "3"), class("night", "1")),
    );
    let broken = parse_manifests("c.yaml", &format!("{}---\nkind: [", class("chat", "4")))
        .or_last_good(&good);
    let mut kept = classes(&broken);
    kept.sort();
    assert_eq!(
        kept,
        [("chat".to_owned(), Some(4)), ("night".to_owned(), Some(1))]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever lies in a folder, it is read, refused or passed over.
    #[test]
    fn no_text_stops_the_reader(
        place in any::<prop::sample::Index>(),
        length in 0..30usize,
        put in "[-a-z0-9:{}\\[\\]\"'&*!|>#%,. \n\t\u{0}\u{e9}]{0,12}",
    ) {
        let text = format!("{POOL}---\n{}", class("chat", "3"));
        let from = place.index(text.len());
        let to = (from + length).min(text.len());
        let text = format!("{}{put}{}", &text[..from], &text[to..]);
        let manifests = parse_manifests("c.yaml", &text);
        let found = manifests.pools.len() + manifests.classes.len() + manifests.pods.len();
        prop_assert!(found + manifests.errors.len() + manifests.notes.len() >= 1, "{text}");
    }
}
