//! A value held against an OpenAPI schema as custom resource definitions write it.

use super::Violation;
use crate::rules;
use serde_json::{Map, Value};

/// Holds a spec against the schema of the whole object.
pub(crate) fn spec(schema: &Value, spec: &Value) -> Vec<Violation> {
    let mut walk = Walk::default();
    let path = Path::Root("spec");
    let schema = &schema["properties"]["spec"];
    match spec {
        Value::Null => walk.fault(&path, required(schema)),
        spec => walk.value(schema, &without_nulls(spec), &path),
    }
    walk.faults
}

#[derive(Default)]
struct Walk {
    faults: Vec<Violation>,
    /// How many of the faults are against bounds rather than rules.
    out_of_bounds: usize,
}

/// Where the walk is, for messages.
enum Path<'a> {
    Root(&'a str),
    Field(&'a Path<'a>, &'a str),
    Entry(&'a Path<'a>, usize),
}

// === impl Walk ===

impl Walk {
    fn fault(&mut self, path: &Path<'_>, message: impl Into<String>) {
        self.out_of_bounds += 1;
        self.tell(path, message);
    }

    fn tell(&mut self, path: &Path<'_>, message: impl Into<String>) {
        self.faults.push(Violation {
            path: path.to_string(),
            message: message.into(),
        });
    }

    fn value(&mut self, schema: &Value, value: &Value, path: &Path<'_>) {
        let before = self.out_of_bounds;
        match (schema["type"].as_str().unwrap_or_default(), value) {
            ("object", Value::Object(members)) => self.object(schema, members, path),
            ("array", Value::Array(entries)) => self.array(schema, entries, path),
            ("string", Value::String(text)) => self.text(schema, text, path),
            ("integer", Value::Number(number)) if !number.is_f64() => {
                self.integer(schema, number, path);
            }
            ("boolean", Value::Bool(_)) => {}
            (wanted, value) => self.fault(path, wrong_type(wanted, value)),
        }
        // Rules only look at what is within its bounds, as in the API server.
        if self.out_of_bounds == before {
            self.rules(schema, value, path);
        }
    }

    fn object(&mut self, schema: &Value, members: &Map<String, Value>, path: &Path<'_>) {
        let Some(fields) = schema["properties"].as_object() else {
            self.size(schema, "Properties", members.len(), "label", path);
            for (key, member) in members {
                self.value(
                    &schema["additionalProperties"],
                    member,
                    &Path::Field(path, key),
                );
            }
            return;
        };
        for field in entries(&schema["required"]).filter_map(Value::as_str) {
            if !members.contains_key(field) {
                self.fault(&Path::Field(path, field), required(&fields[field]));
            }
        }
        for (name, member) in members {
            let here = Path::Field(path, name);
            match fields.get(name) {
                Some(schema) => self.value(schema, member, &here),
                None => self.fault(
                    &here,
                    unknown_field(name, fields.keys().map(String::as_str)),
                ),
            }
        }
    }

    fn array(&mut self, schema: &Value, list: &[Value], path: &Path<'_>) {
        self.size(schema, "Items", list.len(), "entry", path);
        for (index, entry) in list.iter().enumerate() {
            self.value(&schema["items"], entry, &Path::Entry(path, index));
        }
        let keys: Vec<&str> = entries(&schema["x-kubernetes-list-map-keys"])
            .filter_map(Value::as_str)
            .collect();
        let same = |a: &Value, b: &Value| match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => a == b,
            Some("map") => keys.iter().all(|key| {
                let of = |entry: &Value| match entry.get(key) {
                    Some(value) => value.clone(),
                    None => schema["items"]["properties"][key]["default"].clone(),
                };
                of(a) == of(b)
            }),
            _ => false,
        };
        for (index, entry) in list.iter().enumerate() {
            if let Some(first) = list[..index].iter().position(|other| same(other, entry)) {
                self.fault(
                    &Path::Entry(path, index),
                    format!("is the same as entry {first}; leave one of them out"),
                );
            }
        }
    }

    fn text(&mut self, schema: &Value, text: &str, path: &Path<'_>) {
        self.size(schema, "Length", text.chars().count(), "character", path);
        if schema["enum"].is_array() {
            let allowed: Vec<&str> = entries(&schema["enum"]).filter_map(Value::as_str).collect();
            if !allowed.contains(&text) {
                let hint = match suggestion(text, &allowed) {
                    Some(close) if allowed.len() > 1 => format!("; did you mean {close:?}?"),
                    _ => String::new(),
                };
                let found = shown(text);
                self.fault(
                    path,
                    format!("must be {}, but is {found}{hint}", one_of(&allowed)),
                );
            }
        }
    }

    fn integer(&mut self, schema: &Value, number: &serde_json::Number, path: &Path<'_>) {
        let bounds = (schema["minimum"].as_i64(), schema["maximum"].as_i64());
        let within = number.as_i64().is_some_and(|n| {
            bounds.0.is_none_or(|least| n >= least) && bounds.1.is_none_or(|most| n <= most)
        });
        if !within {
            let wanted = match bounds {
                (Some(least), Some(most)) => format!("{least} to {most}"),
                (Some(least), None) => format!("at least {least}"),
                (None, Some(most)) => format!("at most {most}"),
                (None, None) => "a smaller number".to_owned(),
            };
            self.fault(path, format!("must be {wanted}, but is {number}"));
        }
    }

    fn size(&mut self, schema: &Value, of: &str, size: usize, unit: &str, path: &Path<'_>) {
        let bound = |which: &str| schema[format!("{which}{of}")].as_u64();
        let plural = |n: u64| match (n, unit.strip_suffix('y')) {
            (1, _) => format!("1 {unit}"),
            (n, Some(stem)) => format!("{n} {stem}ies"),
            (n, None) => format!("{n} {unit}s"),
        };
        let size = size as u64;
        match (bound("min"), bound("max")) {
            (Some(least), _) if size < least => {
                let hint = if size == 0 {
                    "must not be empty"
                } else {
                    "is too short"
                };
                self.fault(path, format!("{hint}: at least {}", plural(least)));
            }
            (_, Some(most)) if size > most => {
                self.fault(
                    path,
                    format!("must have at most {}, but has {size}", plural(most)),
                );
            }
            _ => {}
        }
    }

    fn rules(&mut self, schema: &Value, value: &Value, path: &Path<'_>) {
        for rule in entries(&schema["x-kubernetes-validations"]) {
            let law = rules::ALL.iter().find(|law| rule["rule"] == law.cel);
            if let Some(law) = law
                && !(law.holds)(value)
            {
                self.tell(path, law.message);
            }
        }
    }
}

// === impl Path ===

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Path::Root(name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Entry(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

fn entries(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// A null member is an unset one, as the API server prunes it.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(key, member)| (key.clone(), without_nulls(member)))
            .collect(),
        Value::Array(entries) => entries.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

fn required(schema: &Value) -> String {
    let allowed: Vec<&str> = entries(&schema["enum"]).filter_map(Value::as_str).collect();
    match schema["properties"].as_object() {
        _ if !allowed.is_empty() => format!("is missing: write {}", one_of(&allowed)),
        Some(fields) => format!("is missing: write it with {}", listed(fields.keys())),
        None => format!("is missing: write {}", article(&schema["type"])),
    }
}

fn wrong_type(wanted: &str, value: &Value) -> String {
    let hint = match (wanted, value) {
        ("string", Value::Number(_) | Value::Bool(_)) => "; write it in quotes",
        ("integer", Value::String(text)) if text.parse::<i64>().is_ok() => {
            "; write it without quotes"
        }
        ("integer", Value::Number(_)) => "; write it without a decimal point or exponent",
        ("array", _) => "; begin each entry with '- '",
        _ => "",
    };
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("{value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {}", shown(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    format!("must be {}, but is {found}{hint}", article(&wanted.into()))
}

/// A text of the user's in a message: its beginning, where it is long.
fn shown(text: &str) -> String {
    match text.char_indices().nth(60) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}...", &text[..end]),
    }
}

fn article(kind: &Value) -> &'static str {
    match kind.as_str() {
        Some("integer") => "a whole number",
        Some("array") => "a list",
        Some("string") => "a string",
        Some("boolean") => "true or false",
        _ => "an object",
    }
}

fn one_of(words: &[&str]) -> String {
    match words {
        [only] => format!("{only:?}"),
        words => format!(
            "one of {}",
            listed(words.iter().map(|word| format!("{word:?}")))
        ),
    }
}

fn listed(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let words: Vec<_> = words.into_iter().collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    words.join(", ")
}

/// What to say of a field that isn't there, beside those that are.
pub(crate) fn unknown_field<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    match suggestion(name, &known) {
        Some(close) => format!("unknown field; did you mean {close:?}?"),
        None => format!("unknown field; known here: {}", listed(known)),
    }
}

/// The known word that a writer most likely meant.
pub fn suggestion<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.chars().count() > 64 {
        return None;
    }
    known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(4))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edits between two words, without regard to case; swapping two neighbours is one edit.
fn distance(a: &str, b: &str) -> usize {
    let letters = |word: &str| word.to_lowercase().chars().collect::<Vec<char>>();
    let (a, b) = (letters(a), letters(b));
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, x) in a.iter().enumerate() {
        let above = &rows[i];
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut edits = (above[j] + usize::from(x != y))
                .min(above[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                edits = edits.min(rows[i - 1][j - 1] + 1);
            }
            row.push(edits);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
