//! The face towards Node: the only code that knows napi, and the only code that may be `unsafe`.
//!
//! It stays thin. It turns JavaScript values into the engine's and back, reads the system's clock
//! where none is given, and stops panics. Errors, promises, options and everything a user sees are
//! made in TypeScript (`ts/`): a native error has no code of ours, and under Jest it belongs to
//! another realm.
//!
//! What happens once (a store, a policy, a ledger) is a `#[napi]` class. What happens on every
//! call is a plain C callback in [`hot`]: the generated glue of a `#[napi]` function with a string
//! costs some 150 ns more than the decision itself.

mod clock;
mod hot;
mod key;
mod limiter;
mod operation;
mod policy;
mod policy_set;
#[cfg(feature = "redis")]
mod redis;
mod registry;
mod store;
#[cfg(all(feature = "redis", unix))]
mod uv;

use crate::abi::{micros, reservation, response, whole};
