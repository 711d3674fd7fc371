//! Socket I/O on the thread of an event loop outside of the runtime: Node's.

pub(crate) mod inline_task;
pub(crate) mod read_ownership;
#[cfg(unix)]
pub(crate) mod socket;
pub(crate) mod socket_handle;
