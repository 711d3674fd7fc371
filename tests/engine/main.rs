//! The proofs of the engine: its laws on random traces, and its equality with slow, exact oracles.
//!
//! Unit tests are in `src/`, beside the code that they test. The tests here need many steps: traces
//! of calls with all clock steps and all kinds of callers, run through an algorithm or a store, and
//! judged by code that shares no arithmetic with it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod algorithm;
mod cases;
mod laws;
mod memory;
mod policy;
mod redis;
