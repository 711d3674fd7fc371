//! The Redis store of the Node addon.

mod copied_array;
mod events;
mod inspector;
mod limiter;
mod listener;
mod responses;
mod store;
mod target;
