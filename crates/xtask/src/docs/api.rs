//! Every field of the two kinds, from the definitions themselves.

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# API reference

<!-- Generated from crates/api by `make docs`; edit there. -->

Both kinds are namespaced and belong to the group `traffic.fairtide.dev`, version `v1alpha1`. `kubectl get fairtide` lists both.
An object refers to objects of its own namespace.

A field that is left out takes its default; unset never means zero. Durations are written as whole numbers with units, such as
`30s`, `5m`, `1h30m` or `500ms` (GEP-2257).

Where there is no API server (`--manifests`), the same bounds and rules hold, and unknown fields are errors.
";

/// The page.
pub fn page() -> Result<String> {
    let mut page = INTRODUCTION.to_owned();
    for crd in fairtide_api::crds() {
        kind(&mut page, crd)?;
    }
    Ok(page)
}

fn kind(page: &mut String, crd: &Value) -> Result<()> {
    let names = &crd["spec"]["names"];
    let version = &crd["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    writeln!(
        page,
        "\n## {}\n\n{}\n",
        text(&names["kind"]),
        text(&schema["description"])
    )?;
    writeln!(
        page,
        "Short name `{}`, plural `{}`.",
        text(&names["shortNames"][0]),
        text(&names["plural"])
    )?;
    let columns = version["additionalPrinterColumns"]
        .as_array()
        .context("columns")?;
    writeln!(
        page,
        "\n`kubectl get` shows (those marked * only with `-o wide`):\n"
    )?;
    for column in columns
        .iter()
        .filter(|column| column["description"].is_string())
    {
        let wide = if column["priority"] == 1 { "*" } else { "" };
        writeln!(
            page,
            "- {}{wide}: {}",
            text(&column["name"]),
            text(&column["description"])
        )?;
    }
    for part in ["spec", "status"] {
        object(page, part, &schema["properties"][part])?;
    }
    Ok(())
}

/// The section of one object, then those of the objects in it.
fn object(page: &mut String, path: &str, schema: &Value) -> Result<()> {
    let fields = schema["properties"].as_object().context("fields")?;
    writeln!(page, "\n### {path}\n")?;
    if let Some(description) = schema["description"].as_str() {
        let meaning = description.split("Default: ").next().unwrap_or_default();
        writeln!(page, "{}\n", cell(meaning))?;
    }
    writeln!(
        page,
        "| field | type | default | meaning |\n| --- | --- | --- | --- |"
    )?;
    let required: Vec<&str> = strings(&schema["required"]);
    for (name, field) in fields {
        let (meaning, default) = meaning(field);
        let default = match default {
            _ if required.contains(&name.as_str()) => "required".to_owned(),
            Some(default) => default,
            None => String::new(),
        };
        writeln!(
            page,
            "| `{name}` | {} | {default} | {meaning} |",
            type_of(field)
        )?;
    }
    let mut rules = Vec::new();
    rules_of(schema, "", &mut rules);
    for (name, field) in fields {
        if members(field).is_none_or(Map::is_empty) {
            rules_of(field, name, &mut rules);
            rules_of(&field["items"], name, &mut rules);
        } else {
            // The rules of an object stand in its own section; those of a list of objects here.
            if field["type"] == "array" {
                rules_of(field, name, &mut rules);
            }
        }
    }
    if !rules.is_empty() {
        writeln!(page, "\nRules:\n")?;
        for rule in rules {
            writeln!(page, "- {rule}")?;
        }
    }
    for (name, field) in fields {
        let (inner, path) = match field["type"].as_str() {
            Some("array") => (&field["items"], format!("{path}.{name}[]")),
            _ => (field, format!("{path}.{name}")),
        };
        if inner["properties"].is_object() {
            object(page, &path, inner)?;
        }
    }
    Ok(())
}

fn rules_of(schema: &Value, name: &str, rules: &mut Vec<String>) {
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let message = cell(rule["message"].as_str().unwrap_or_default());
        rules.push(match name {
            "" => message,
            name => format!("`{name}`: {message}"),
        });
    }
}

fn members(field: &Value) -> Option<&Map<String, Value>> {
    let inner = if field["type"] == "array" {
        &field["items"]
    } else {
        field
    };
    inner["properties"].as_object()
}

/// Description and default, which is the description's last sentence or stands in the schema.
fn meaning(field: &Value) -> (String, Option<String>) {
    let description = field["description"].as_str().unwrap_or_default();
    if let Some((meaning, default)) = description.split_once("Default: ") {
        let default = default.trim_end().trim_end_matches('.');
        return (cell(meaning.trim_end()), Some(cell(default)));
    }
    let default = match &field["default"] {
        Value::Null | Value::Object(_) => None,
        Value::String(text) => Some(format!("`{text}`")),
        other => Some(other.to_string()),
    };
    (cell(description), default)
}

fn type_of(field: &Value) -> String {
    let words = strings(&field["enum"]);
    if !words.is_empty() {
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        return words.join(" or ");
    }
    let number = |keyword: &str| field[keyword].as_i64();
    let bounds = |least: Option<i64>, most: Option<i64>| match (least, most) {
        (Some(least), Some(most)) if least == most => format!(", {least}"),
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) => format!(", at least {least}"),
        (None, Some(most)) => format!(", at most {most}"),
        (None, None) => String::new(),
    };
    match field["type"].as_str().unwrap_or_default() {
        "integer" => format!("integer{}", bounds(number("minimum"), number("maximum"))),
        "string" if field["format"] == "date-time" => "time".to_owned(),
        "string" if is_duration(field) => "duration".to_owned(),
        "string" => match number("maxLength") {
            Some(most) => format!("string, up to {most} characters"),
            None => "string".to_owned(),
        },
        "array" => {
            let inner = if field["items"]["properties"].is_object() {
                "objects"
            } else {
                "strings"
            };
            format!(
                "list of {inner}{}",
                bounds(number("minItems"), number("maxItems"))
            )
        }
        "object" if field["additionalProperties"].is_object() => format!(
            "map of strings{}",
            bounds(number("minProperties"), number("maxProperties"))
        ),
        other => other.to_owned(),
    }
}

fn is_duration(field: &Value) -> bool {
    let mut rules = field["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten();
    rules.any(|rule| {
        rule["rule"]
            .as_str()
            .is_some_and(|cel| cel.contains("duration(self)"))
    })
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// A text that may stand in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}
