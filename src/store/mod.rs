//! Stores: where states live, and what makes a decision atomic.
//!
//! A store brings three things to the pure algorithms: a place for each key's state, a lock (or
//! whatever serves as one) around read, decide and write, and the deciding clock.

pub mod memory;
pub(crate) mod prefixes;
pub mod redis;

pub use prefixes::PrefixTaken;
