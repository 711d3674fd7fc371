//! The face of the engine as WebAssembly: the only code that knows wasm-bindgen. `ts/wasm/engine/engine.ts` is its other
//! end.
//!
//! It stays thin and small, as it is downloaded. Numbers are all that passes; texts, keys and answers lie on the
//! [`desk`], a place in memory that JavaScript knows, and have no glue of their own. What this target has none of
//! comes from JavaScript, too: every call brings its time, and the [`host`] has random numbers and the clocks of
//! time zones. (The random numbers of the standard library are the same in every process here.)
//!
//! There are two modules of it, each with a feature of its own: what is for the embedded store (`wasm`), and what is for
//! Redis (`wasm-redis`). Who needs one of them does not load the other.
//!
//! A panic is a trap: it ends the call, and JavaScript answers with a failure.

#![allow(unreachable_pub, reason = "wasm-bindgen gives JavaScript only what is public")]

mod builder;
#[cfg(feature = "wasm")]
mod clock;
mod host;
#[cfg(feature = "wasm")]
mod limiter;
mod operation_reader;
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
use crate::abi::{operation, reservation, response, whole};

/// Any allocation takes the same short time, and the allocator is small.
#[global_allocator]
static ALLOCATOR: rlsf::SmallGlobalTlsf = rlsf::SmallGlobalTlsf::new();
