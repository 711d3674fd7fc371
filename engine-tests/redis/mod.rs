//! The Redis half, against a real `redis-server` that each test starts for itself.

#[cfg(feature = "redis")]
mod connection;
mod isolation;
mod keys;
mod rounds;
mod server;
pub(crate) mod twins;

pub(crate) use server::Server;
