//! Where policies come from: files, or the operator's channel.

pub(crate) mod channel;
pub(crate) mod kept;
pub(crate) mod manifests;
