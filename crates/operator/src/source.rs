//! Where objects come from: the API server's watches, or files. Both give the same changes.

pub mod cluster;
pub mod files;
