//! Checks that what injection reads has the types that a pod has. The API server lets nothing else
//! pass; files on a command line may hold anything. After this check no reader has to doubt.

use crate::refusal::Refusal;
use serde_json::{Map, Value};

/// An object of a list, and where it is.
type Placed<'a> = (String, &'a Map<String, Value>);

/// Checks a pod.
pub(crate) fn check(pod: &Value) -> Result<(), Refusal> {
    let pod = object("the document", pod)?;
    if let Some(kind) = text("kind", pod.get("kind"))?
        && kind != "Pod"
    {
        return Err(Refusal::NotAPod {
            at: "kind".to_owned(),
            wanted: "Pod",
        });
    }
    let metadata = required("metadata", pod.get("metadata"))?;
    let metadata = object("metadata", metadata)?;
    for map in ["labels", "annotations"] {
        let at = format!("metadata.{map}");
        for (key, value) in object_or_none(&at, metadata.get(map))?
            .into_iter()
            .flatten()
        {
            text(&format!("{at}.{key}"), Some(value))?;
        }
    }
    for (at, owner) in objects("metadata.ownerReferences", metadata.get("ownerReferences"))? {
        text(&format!("{at}.kind"), owner.get("kind"))?;
    }
    let spec = object("spec", required("spec", pod.get("spec"))?)?;
    for list in ["containers", "initContainers"] {
        let containers = objects(&format!("spec.{list}"), spec.get(list))?;
        if list == "containers" && containers.is_empty() {
            return Err(Refusal::NotAPod {
                at: "spec.containers".to_owned(),
                wanted: "a list with a container in it",
            });
        }
        for (at, value) in containers {
            container(&at, value)?;
        }
    }
    for (at, volume) in objects("spec.volumes", spec.get("volumes"))? {
        text(&format!("{at}.name"), volume.get("name"))?;
    }
    integer(
        "spec.terminationGracePeriodSeconds",
        spec.get("terminationGracePeriodSeconds"),
    )?;
    for map in ["resources", "securityContext", "os"] {
        object_or_none(&format!("spec.{map}"), spec.get(map))?;
    }
    let context = spec.get("securityContext");
    let sysctls = context.and_then(|context| context.get("sysctls"));
    objects("spec.securityContext.sysctls", sysctls)?;
    Ok(())
}

fn container(at: &str, container: &Map<String, Value>) -> Result<(), Refusal> {
    let name = format!("{at}.name");
    text(&name, Some(required(&name, container.get("name"))?))?;
    for field in ["image", "restartPolicy"] {
        text(&format!("{at}.{field}"), container.get(field))?;
    }
    for field in ["command", "args"] {
        let at = format!("{at}.{field}");
        for (index, word) in list(&at, container.get(field))?.iter().enumerate() {
            let at = format!("{at}[{index}]");
            text(&at, Some(required(&at, Some(word))?))?;
        }
    }
    for (at, variable) in objects(&format!("{at}.env"), container.get("env"))? {
        let name = format!("{at}.name");
        text(&name, Some(required(&name, variable.get("name"))?))?;
        text(&format!("{at}.value"), variable.get("value"))?;
    }
    objects(&format!("{at}.envFrom"), container.get("envFrom"))?;
    objects(&format!("{at}.volumeMounts"), container.get("volumeMounts"))?;
    for (at, port) in objects(&format!("{at}.ports"), container.get("ports"))? {
        text(&format!("{at}.name"), port.get("name"))?;
        text(&format!("{at}.protocol"), port.get("protocol"))?;
        for field in ["containerPort", "hostPort"] {
            integer(&format!("{at}.{field}"), port.get(field))?;
        }
    }
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        handler(&format!("{at}.{probe}"), container.get(probe))?;
    }
    let lifecycle = format!("{at}.lifecycle");
    let hooks = object_or_none(&lifecycle, container.get("lifecycle"))?;
    for (hook, value) in hooks.into_iter().flatten() {
        if hook == "preStop" || hook == "postStart" {
            handler(&format!("{lifecycle}.{hook}"), Some(value))?;
        }
    }
    for map in ["resources", "securityContext"] {
        object_or_none(&format!("{at}.{map}"), container.get(map))?;
    }
    Ok(())
}

/// A probe or a hook.
fn handler(at: &str, value: Option<&Value>) -> Result<(), Refusal> {
    let Some(handler) = object_or_none(at, value)? else {
        return Ok(());
    };
    for action in ["httpGet", "tcpSocket", "grpc", "exec"] {
        let at = format!("{at}.{action}");
        let Some(value) = handler.get(action).filter(|value| !value.is_null()) else {
            continue;
        };
        let action = object(&at, value)?;
        for field in ["path", "scheme", "host", "service"] {
            text(&format!("{at}.{field}"), action.get(field))?;
        }
        let command = format!("{at}.command");
        for (index, word) in list(&command, action.get("command"))?.iter().enumerate() {
            let at = format!("{command}[{index}]");
            text(&at, Some(required(&at, Some(word))?))?;
        }
        for (at, header) in objects(&format!("{at}.httpHeaders"), action.get("httpHeaders"))? {
            text(&format!("{at}.name"), header.get("name"))?;
            text(&format!("{at}.value"), header.get("value"))?;
        }
    }
    for field in ["timeoutSeconds", "periodSeconds", "failureThreshold"] {
        integer(&format!("{at}.{field}"), handler.get(field))?;
    }
    Ok(())
}

fn refuse<T>(at: &str, wanted: &'static str) -> Result<T, Refusal> {
    let at = at.to_owned();
    Err(Refusal::NotAPod { at, wanted })
}

fn required<'a>(at: &str, value: Option<&'a Value>) -> Result<&'a Value, Refusal> {
    match value.filter(|value| !value.is_null()) {
        Some(value) => Ok(value),
        None => refuse(at, "a value"),
    }
}

fn object<'a>(at: &str, value: &'a Value) -> Result<&'a Map<String, Value>, Refusal> {
    match value {
        Value::Object(map) => Ok(map),
        _ => refuse(at, "a map"),
    }
}

fn object_or_none<'a>(
    at: &str,
    value: Option<&'a Value>,
) -> Result<Option<&'a Map<String, Value>>, Refusal> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => object(at, value).map(Some),
    }
}

fn list<'a>(at: &str, value: Option<&'a Value>) -> Result<&'a [Value], Refusal> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => refuse(at, "a list"),
    }
}

fn objects<'a>(at: &str, value: Option<&'a Value>) -> Result<Vec<Placed<'a>>, Refusal> {
    let mut objects = Vec::new();
    for (index, value) in list(at, value)?.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let value = object(&at, value)?;
        objects.push((at, value));
    }
    Ok(objects)
}

fn text<'a>(at: &str, value: Option<&'a Value>) -> Result<Option<&'a str>, Refusal> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => refuse(at, "a string (write it in quotes)"),
    }
}

fn integer(at: &str, value: Option<&Value>) -> Result<(), Refusal> {
    match value {
        None | Some(Value::Null) => Ok(()),
        Some(value) if value.is_i64() => Ok(()),
        Some(_) => refuse(at, "a whole number"),
    }
}
