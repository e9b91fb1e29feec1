//! Where policies come from: files, or the operator's channel; and which one to begin with.

pub(crate) mod channel;
pub(crate) mod kept;
pub(crate) mod manifests;
mod trust;

use self::{
    channel::ChannelConfig,
    kept::KeptPolicy,
    manifests::{Folder, ManifestsError},
};
use crate::{bootstrap, in_force::Source};
use fairtide_policy::Policy;
use fairtide_resolve::ObjectKey;
use std::path::PathBuf;

/// Where policies come from.
#[derive(Clone, Debug)]
pub enum PolicySource {
    /// From files.
    Manifests {
        /// The folder.
        folder: PathBuf,
        /// The pool to obey.
        pool: ObjectKey,
    },
    /// From the operator.
    Channel(ChannelConfig),
}

/// The policy to begin with, and where the next ones come from.
pub(crate) struct First {
    pub(crate) policy: Policy,
    pub(crate) version: String,
    pub(crate) source: Source,
    pub(crate) follow: Follow,
}

pub(crate) enum Follow {
    Folder(Folder),
    Channel(ChannelConfig, Option<KeptPolicy>),
}

// === impl First ===

impl First {
    pub(crate) fn find(source: PolicySource) -> Result<Self, ManifestsError> {
        match source {
            PolicySource::Manifests { folder, pool } => Self::in_folder(folder, pool),
            PolicySource::Channel(config) => Ok(Self::kept(config)),
        }
    }

    fn in_folder(path: PathBuf, pool: ObjectKey) -> Result<Self, ManifestsError> {
        let mut folder = Folder::new(path, pool);
        let (policy, findings) = folder.read()?;
        findings.log();
        Ok(Self {
            version: policy.version(),
            policy,
            source: Source::Manifests,
            follow: Follow::Folder(folder),
        })
    }

    /// What was kept of the operator's last policy; else the bootstrap's.
    fn kept(config: ChannelConfig) -> Self {
        let folder = config.state.as_deref().map(KeptPolicy::new);
        let loaded = folder.as_ref().map_or(Ok(None), KeptPolicy::load);
        let kept = loaded.unwrap_or_else(|error| {
            tracing::error!(%error, "the kept policy can't be read");
            None
        });
        let obeyable = kept.filter(|kept| {
            let checked = kept.policy.settings();
            if let Err(error) = &checked {
                tracing::error!(%error, "the kept policy can't be obeyed");
            }
            checked.is_ok()
        });
        let (policy, version, source) = match obeyable {
            Some(kept) => (kept.policy, kept.version, Source::Kept),
            None => {
                let unknown = || bootstrap::policy(&config.pod.namespace, &config.pod.name);
                let policy = config.first.as_deref().cloned().unwrap_or_else(unknown);
                let version = policy.version();
                (policy, version, Source::Bootstrap)
            }
        };
        Self {
            policy,
            version,
            source,
            follow: Follow::Channel(config, folder),
        }
    }
}
