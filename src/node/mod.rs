//! The Node addon: the only code that uses napi, and the only code that may be `unsafe`.
//!
//! It is thin. It converts JavaScript values to the engine's and back, reads the system's clock if
//! the caller gives no time, and catches panics. TypeScript (`ts/`) makes the errors, promises,
//! options and everything else that users see: a native error cannot have our error code, and under
//! Jest it belongs to another realm.
//!
//! Objects that are created once (a store, a policy, a limiter) are `#[napi]` classes. The calls of
//! every request are plain C callbacks in [`hot`]: the generated code of a `#[napi]` function with
//! a string takes about 150 ns more than the decision itself.

// Before `limiter`, which adds a method to its class: napi must know the class's JavaScript name by
// then.
mod registry;

mod clock;
mod hot;
mod key;
mod limiter;
mod operation;
mod policy;
mod policy_set;
#[cfg(feature = "redis")]
mod redis;
mod store;
#[cfg(all(feature = "redis", unix))]
mod uv;

use crate::abi::{micros, response, whole};

/// The error for an invalid argument.
fn invalid(error: impl std::fmt::Display) -> napi::Error {
    napi::Error::new(napi::Status::InvalidArg, error.to_string())
}
