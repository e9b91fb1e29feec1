//! `docs/reference/`: pages that say what the code says.

mod api;
mod outcomes;

use crate::generated::Generated;
use anyhow::Result;

/// The files of `docs/reference/`.
pub fn files() -> Result<Vec<Generated>> {
    let page = |name: &str, text: String| Generated {
        path: format!("docs/reference/{name}.md").into(),
        text,
    };
    Ok(vec![
        page("api", api::page()?),
        page("outcomes", outcomes::page()?),
    ])
}
