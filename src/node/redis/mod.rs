//! The store in Redis for Node.

mod events;
mod inspector;
mod limiter;
mod listener;
mod responses;
mod store;
mod target;
