//! From a JSON value to a typed object, without losing a word: where the API server would prune a
//! field that it doesn't know, this says so.

use crate::{
    Kind, Violation, names,
    validate::{self, unknown_field},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

/// Members of an object.
const TOP: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Members of `metadata` that a manifest, or an object read back from a cluster, may have.
const METADATA: [&str; 15] = [
    "name",
    "namespace",
    "labels",
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Reads an object of one kind. A `status` is left out, as the API server leaves it out.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse<T: Kind>(mut value: Value) -> Result<T, Vec<Violation>> {
    let mut faults = Vec::new();
    let Some(object) = value.as_object_mut() else {
        return Err(vec![fault("(document)", "must be an object")]);
    };
    object.remove("status");
    header::<T>(object, &mut faults);
    metadata(object.get("metadata"), &mut faults);
    faults.extend(validate::spec(
        T::schema(),
        object.get("spec").unwrap_or(&Value::Null),
    ));
    if !faults.is_empty() {
        return Err(faults);
    }
    // What is left to fail here is only what the schema doesn't say: it is told without a path.
    serde_json::from_value(value).map_err(|error| vec![fault("spec", error.to_string())])
}

fn header<T: Kind>(object: &Map<String, Value>, faults: &mut Vec<Violation>) {
    for (field, wanted) in [("apiVersion", names::API_VERSION), ("kind", T::KIND)] {
        match object.get(field) {
            Some(Value::String(found)) if found == wanted => {}
            Some(found) => faults.push(fault(field, format!("must be {wanted:?}, but is {found}"))),
            None => faults.push(fault(field, format!("is missing: write {wanted:?}"))),
        }
    }
    for name in object.keys().filter(|name| !TOP.contains(&name.as_str())) {
        faults.push(fault(name, unknown_field(name, TOP.into_iter())));
    }
}

fn metadata(metadata: Option<&Value>, faults: &mut Vec<Violation>) {
    let members = match metadata {
        Some(Value::Object(members)) => members,
        None | Some(Value::Null) => {
            return faults.push(fault("metadata", "is missing: write it with a name"));
        }
        Some(_) => return faults.push(fault("metadata", "must be an object with a name")),
    };
    for name in members.keys().filter(|n| !METADATA.contains(&n.as_str())) {
        let known = METADATA[..4].iter().copied();
        faults.push(fault(
            format!("metadata.{name}"),
            unknown_field(name, known),
        ));
    }
    for field in ["name", "namespace"] {
        let path = format!("metadata.{field}");
        match members.get(field) {
            None | Some(Value::Null) if field == "name" => {
                faults.push(fault(path, "is missing: write a name"));
            }
            None | Some(Value::Null) => {}
            Some(Value::String(name)) if crate::rules::is_name(name) => {}
            Some(Value::String(_)) => faults.push(fault(path, crate::rules::OBJECT_NAME.message)),
            Some(_) => faults.push(fault(path, "must be a string; write it in quotes")),
        }
    }
    // The remaining members are typed by what reads them; a wrong type is told with its path.
    for (name, member) in members {
        if name == "name" || name == "namespace" || !METADATA.contains(&name.as_str()) {
            continue;
        }
        let alone = Value::Object([(name.clone(), member.clone())].into_iter().collect());
        if let Err(error) = serde_json::from_value::<ObjectMeta>(alone) {
            faults.push(fault(format!("metadata.{name}"), error.to_string()));
        }
    }
}

fn fault(path: impl Into<String>, message: impl Into<String>) -> Violation {
    Violation {
        path: path.into(),
        message: message.into(),
    }
}
