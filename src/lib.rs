//! The engine of the npm package `tollgate`: exact rate limiting with integers.
//!
//! Each layer of the crate uses only the layers before it:
//!
//! 1. [`calendar`]: window boundaries by the clock of a time zone.
//! 2. [`algorithm`]: pure functions `(policy, state, now, cost) -> (state, outcome)`, without a
//!    clock, a store or Node.
//! 3. [`policy`]: policies, policy sets, operations and decisions, for any algorithm.
//! 4. [`prefixes`]: the open prefixes of a store and their policies.
//! 5. [`memory`]: the embedded store.
//! 6. [`redis`]: the store in Redis.
//! 7. `abi`: operations and responses as numbers, for both bindings.
//! 8. `node` (feature `node`): the Node addon.
//! 9. `wasm` (features `wasm` and `wasm-redis`): the WebAssembly modules.
//!
//! [`clock`], [`key`], [`time`], [`short_list`], `sync` and `protocol` depend on none of these.
//!
//! `ARCHITECTURE.md` beside `Cargo.toml` describes the design.

/// The text of a file in `lua/`, as `build.rs` has shortened it.
macro_rules! lua {
    ($file:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/lua/", $file))
    };
}

pub mod algorithm;
pub mod calendar;
pub mod clock;
pub mod key;
pub mod memory;
pub mod policy;
pub mod prefixes;
#[allow(dead_code, reason = "each binding uses some of the numbers")]
mod protocol;
pub mod redis;
pub mod short_list;
mod sync;
pub mod time;

#[cfg(any(feature = "node", feature = "wasm", feature = "wasm-redis"))]
#[cfg_attr(
    not(any(feature = "node", feature = "wasm")),
    allow(dead_code, reason = "a part of it is for the embedded store")
)]
mod abi;
#[cfg(feature = "node")]
mod node;
#[cfg(any(feature = "wasm", feature = "wasm-redis"))]
mod wasm;

/// What `tests/fuzz/` calls and no binding exports (feature `fuzzing`).
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    pub use crate::redis::fuzzing as redis;
    pub use crate::wasm::fuzzing as wasm;
}
