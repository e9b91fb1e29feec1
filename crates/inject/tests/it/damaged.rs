//! Documents that are no pod, or no longer.

use super::fixtures;
use fairtide_inject::{Context, Outcome, inject};
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_makes_it_panic(pod in json_values(), label in any::<bool>()) {
        let mut pod = pod;
        if label && pod.get("metadata").is_none_or(Value::is_object) && pod.is_object() {
            pod["metadata"]["labels"] = json!({"fairtide.dev/inject": "enabled"});
        }
        let _ = inject(&pod, &fixtures::operator_only());
    }

    #[test]
    fn a_damaged_pod_is_refused_or_patched_well(
        (fixture, at, with) in (0..1000usize, 0..10_000usize, json_values())
    ) {
        let all = fixtures_once();
        let (context, pod) = &all[fixture % all.len()];
        let mut pod = pod.clone();
        let places = places(&pod);
        let place = &places[at % places.len()];
        *pod.pointer_mut(place).expect("it is there") = with;
        if let Ok(injection) = inject(&pod, context) {
            let mut after = pod.clone();
            prop_assert!(injection.patch.apply(&mut after).is_ok(), "{place}");
            if matches!(injection.outcome, Outcome::Injected(_)) {
                let again = inject(&after, context);
                prop_assert!(
                    again.as_ref().is_ok_and(|again| again.patch.is_empty()),
                    "{place}: {again:?}"
                );
            }
        }
    }
}

fn fixtures_once() -> &'static Vec<(Context, Value)> {
    static ALL: std::sync::OnceLock<Vec<(Context, Value)>> = std::sync::OnceLock::new();
    ALL.get_or_init(|| {
        let all = fixtures::all().into_iter();
        all.map(|fixture| (fixture.context, fixture.pod)).collect()
    })
}

fn places(value: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, places: &mut Vec<String>) {
        places.push(at.to_owned());
        match value {
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    walk(value, &format!("{at}/{index}"), places);
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    walk(value, &format!("{at}/{key}"), places);
                }
            }
            _ => {}
        }
    }
    let mut places = Vec::new();
    walk(value, "", &mut places);
    places
}

/// JSON that looks a little like a pod.
fn json_values() -> impl Strategy<Value = Value> {
    let words = select(vec![
        "",
        "vllm",
        "serve",
        "--port",
        "8000",
        "--port=8000",
        "$(X)",
        "bash",
        "-c",
        "Always",
        "enabled",
        "http",
        "localhost:8000",
        "1Gi",
        "{}",
        "fairtide-sidecar",
    ]);
    let keys = select(vec![
        "metadata",
        "labels",
        "annotations",
        "spec",
        "containers",
        "initContainers",
        "name",
        "image",
        "command",
        "args",
        "env",
        "value",
        "ports",
        "containerPort",
        "hostPort",
        "livenessProbe",
        "httpGet",
        "port",
        "exec",
        "lifecycle",
        "preStop",
        "resources",
        "limits",
        "cpu",
        "volumes",
        "securityContext",
        "runAsUser",
        "kind",
        "restartPolicy",
        "fairtide.dev/status",
        "fairtide.dev/inject",
        "fairtide.dev/takeover",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| json!(number)),
        (0..70_000i64).prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        words.prop_map(|word| json!(word)),
        ".{0,6}".prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|entries| {
                let entries = entries.into_iter();
                let entries = entries.map(|(key, value)| (key.to_owned(), value));
                Value::Object(entries.collect())
            }),
        ]
    })
}
