//! The Redis tests. Each test starts its own `redis-server`.

mod buckets;
#[cfg(feature = "redis")]
mod calendar_window;
mod cluster;
mod concurrency;
#[cfg(feature = "redis")]
mod connection;
mod flushes;
mod holds;
mod isolation;
pub(crate) mod key_names;
mod lifetimes;
mod mixes;
mod multi_policy;
pub(crate) mod operations;
mod other_numbers;
mod overrides;
mod policy_sets;
mod recorded;
mod scheduled;
mod server;
mod sliding_log;
mod sliding_window;
pub(crate) mod twins;

pub(crate) use server::Server;
