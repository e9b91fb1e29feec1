//! The policy that is replayed: that of one pool, as its sidecars would obey it.

use anyhow::{Context, bail};
use fairtide_resolve::{ResolvedPool, read_manifests, resolve};
use fairtide_sim::Settings;
use std::path::Path;

/// Reads the pool of that name, or the only one. A fault in any document is an error: what would
/// be replayed is not what was written.
pub fn settings(path: &Path, wanted: Option<&str>) -> anyhow::Result<Settings> {
    let manifests = read_manifests(path)?;
    if let Some(error) = manifests.errors.first() {
        bail!("{error}");
    }
    let resolved = resolve(manifests.pools(), manifests.classes());
    for class in &resolved.classes {
        if let Some(fault) = class.conditions.iter().find(|found| found.is_fault()) {
            bail!("TrafficClass {}: {}", class.key, fault.message);
        }
    }
    let names: Vec<String> = resolved
        .pools
        .iter()
        .map(|pool| pool.key.to_string())
        .collect();
    let pool: &ResolvedPool = match (wanted, &resolved.pools[..]) {
        (_, []) => bail!("there is no InferencePool in {}; write one", path.display()),
        (None, [pool]) => pool,
        (None, _) => bail!(
            "there are several pools; add --pool with one of {}",
            names.join(", ")
        ),
        (Some(wanted), pools) => {
            let at = names.iter().position(|name| name == wanted);
            let at = at.with_context(|| {
                format!(
                    "there is no pool {wanted:?}; write --pool with one of {}",
                    names.join(", ")
                )
            })?;
            &pools[at]
        }
    };
    let Some(policy) = &pool.policy else {
        let fault = pool.conditions.iter().find(|found| found.is_fault());
        let fault = fault.map_or("is not accepted", |fault| fault.message.as_str());
        bail!("InferencePool {}: {fault}", pool.key);
    };
    Ok(policy.settings()?)
}
