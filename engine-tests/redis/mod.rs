//! The Redis half, against a real `redis-server` that each test starts for itself.

mod booking;
mod buckets;
#[cfg(feature = "redis")]
mod calendar_window;
#[cfg(feature = "redis")]
mod cluster;
#[cfg(feature = "redis")]
mod cluster_faults;
mod cluster_split;
#[cfg(feature = "redis")]
mod connection;
mod holds;
mod isolation;
pub(crate) mod keys;
mod lifetimes;
mod mixes;
#[cfg(feature = "redis")]
mod nodes;
mod operations;
mod recorded;
mod rounds;
mod server;
mod several;
mod sliding_log;
mod sliding_window;
pub(crate) mod twins;

pub(crate) use server::Server;
