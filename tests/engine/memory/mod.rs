//! The embedded store.

pub(crate) mod capacity;
pub(crate) mod store;
pub(crate) mod threads;
