//! States and numbers that several algorithms share.

pub(crate) mod buckets;
pub(crate) mod entry;
pub(crate) mod levels;
