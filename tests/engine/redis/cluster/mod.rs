//! Redis Cluster: the router, partitioned flushes and faults, on real nodes.

#[cfg(feature = "redis")]
mod faults;
#[cfg(feature = "redis")]
pub(crate) mod nodes;
mod partition;
#[cfg(feature = "redis")]
mod router;
