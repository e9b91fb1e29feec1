//! What must hold of the workspace as a whole, by what cargo says of it.

mod arrows;
mod banned;
mod licences;
mod metadata;
mod size;

use crate::generated::root;
use anyhow::{Result, bail};
use metadata::Metadata;

/// Prints warnings, then fails with everything that is wrong.
pub fn run() -> Result<()> {
    let metadata = Metadata::of_workspace()?;
    for warning in size::long_files(&root().join("crates"))? {
        println!("warning: {warning}");
    }
    let mut faults = arrows::faults(&metadata);
    faults.extend(banned::faults(&metadata));
    faults.extend(licences::faults(&metadata));
    if !faults.is_empty() {
        bail!("\n- {}", faults.join("\n- "));
    }
    println!(
        "{} crates of ours, {} of others: arrows, licences and bans hold",
        metadata.ours().count(),
        metadata.packages.len() - metadata.ours().count()
    );
    Ok(())
}
