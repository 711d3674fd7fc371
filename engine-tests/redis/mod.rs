//! The Redis half, against a real `redis-server` that each test starts for itself.

mod isolation;
mod keys;
mod server;
mod twins;
