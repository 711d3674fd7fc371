//! The embedded store.

pub(crate) mod store;
pub(crate) mod threads;
