//! `crds/`: one file a kind, with its members in alphabetical order, so that a change of a type
//! shows as a small difference.

use crate::generated::Generated;
use anyhow::{Context, Result};
use serde_json::Value;

/// The files of `crds/`.
pub fn files() -> Result<Vec<Generated>> {
    fairtide_api::crds()
        .into_iter()
        .map(|crd| {
            let name = crd["metadata"]["name"]
                .as_str()
                .context("a definition has a name")?;
            let yaml = serde_yaml::to_string(&sorted(crd))?;
            Ok(Generated {
                path: format!("crds/{name}.yaml").into(),
                text: format!("# Generated from crates/api by `make crds`; edit there.\n{yaml}"),
            })
        })
        .collect()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            members
                .into_iter()
                .map(|(key, member)| (key.clone(), sorted(member)))
                .collect()
        }
        Value::Array(entries) => entries.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
