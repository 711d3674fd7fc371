//! The WebAssembly modules: the only code that uses wasm-bindgen. `ts/wasm/engine/engine.ts` is the
//! JavaScript side.
//!
//! The modules are thin and small, because they are downloaded. Calls pass only numbers. Texts,
//! keys and responses are in the [`scratch`] memory, whose address JavaScript knows, so they need
//! no generated code. JavaScript also supplies what this target lacks: every call passes its time,
//! and the [`host`] functions supply random numbers and the clocks of time zones. (On this target
//! the standard library's random numbers are the same in every process.)
//!
//! There are two modules, each with a feature of its own: one for the embedded store (`wasm`), and
//! one for Redis (`wasm-redis`). So a program downloads only the one it needs.
//!
//! A panic traps: it ends the call, and JavaScript reports a failure.

#![allow(unreachable_pub, reason = "wasm-bindgen gives JavaScript only what is public")]

mod builder;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod host;
#[cfg(feature = "wasm")]
mod limiter;
mod policy;
#[cfg(feature = "wasm-redis")]
mod redis_flush;
#[cfg(feature = "wasm-redis")]
mod redis_store;
mod scratch;
#[cfg(feature = "wasm")]
mod store;

#[cfg(feature = "wasm")]
use crate::abi::micros;
use crate::abi::{operation, response, whole};

/// A small allocator whose allocations take constant time.
#[cfg(not(feature = "fuzzing"))]
#[global_allocator]
static ALLOCATOR: rlsf::SmallGlobalTlsf = rlsf::SmallGlobalTlsf::new();
