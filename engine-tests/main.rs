//! The proofs of the engine: its laws by random traces, and its equality with slow exact oracles.
//!
//! Unit tests stand beside what they test, in `src/`. Here is what needs many steps: traces of
//! calls with all that clocks and callers do, run through an algorithm or a store, and judged by
//! code that shares no arithmetic with it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod algorithm;
mod cases;
mod laws;
mod memory;
mod policy;
mod redis;
