//! What is read: the documents of a file, of a folder, or of standard input.

use fairtide_inject::Namespace;
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io::Read,
    path::{Path, PathBuf},
};

/// The documents of one `-f`.
#[derive(Clone, Debug)]
pub struct Manifests {
    /// As the user wrote it.
    pub name: String,
    /// Those that hold something.
    pub documents: Vec<Value>,
}

// === impl Manifests ===

impl Manifests {
    /// Reads a file, the manifests of a folder by name, or standard input.
    ///
    /// # Errors
    /// A sentence that says what to write instead.
    pub fn read(name: &str) -> Result<Self, String> {
        let path = Path::new(name);
        let mut documents = Vec::new();
        if name == "-" {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| format!("standard input: {error}"))?;
            documents = parse(&text)?;
        } else if path.is_dir() {
            let files = in_folder(path)?;
            if files.is_empty() {
                return Err("the folder has no *.yaml, *.yml or *.json".to_owned());
            }
            for file in files {
                let at = |error| format!("{}: {error}", file.display());
                documents.extend(from_file(&file).map_err(at)?);
            }
        } else {
            documents = from_file(path)?;
        }
        Ok(Self {
            name: name.to_owned(),
            documents,
        })
    }

    /// All objects, also those in lists.
    pub fn objects(&mut self) -> impl Iterator<Item = &mut Value> {
        self.documents.iter_mut().flat_map(|document| {
            let kind = document["kind"].as_str().unwrap_or_default();
            match kind.ends_with("List") && document["items"].is_array() {
                true => document["items"]
                    .as_array_mut()
                    .into_iter()
                    .flatten()
                    .collect(),
                false => vec![document],
            }
        })
    }
}

/// What the namespaces among the objects say, whichever file they are in.
pub fn namespaces(files: &mut [Manifests]) -> BTreeMap<String, Namespace> {
    let objects = files.iter_mut().flat_map(Manifests::objects);
    let found = objects.filter(|object| object["kind"] == "Namespace");
    found
        .filter_map(|object| {
            let meta = &object["metadata"];
            let map = |value: &Value| serde_json::from_value(value.clone()).unwrap_or_default();
            let said = Namespace {
                labels: map(&meta["labels"]),
                annotations: map(&meta["annotations"]),
            };
            Some((meta["name"].as_str()?.to_owned(), said))
        })
        .collect()
}

fn from_file(path: &Path) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{error}; write a file or folder of manifests, or -"))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<Value>, String> {
    let mut documents = Vec::new();
    for (index, document) in serde_yaml::Deserializer::from_str(text).enumerate() {
        let value = Value::deserialize(document)
            .map_err(|error| format!("document {}: {error}", index + 1))?;
        match value {
            Value::Null => {}
            Value::Object(_) => documents.push(value),
            _ => return Err(format!("document {} is no object", index + 1)),
        }
    }
    Ok(documents)
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        let ending = path.extension().and_then(OsStr::to_str);
        if path.is_file() && matches!(ending, Some("yaml" | "yml" | "json")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
