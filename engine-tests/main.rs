//! The proofs of the engine: its laws by random traces, and its equality with slow exact oracles.
//!
//! Unit tests stand beside what they test, in `src/`. Here is what needs many steps: traces of
//! calls with all that clocks and callers do, run through an algorithm or a store, and judged by
//! code that shares no arithmetic with it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod booking;
mod bucket_oracle;
mod bucket_overflow;
mod buckets;
mod calendar_window;
mod cases;
mod compound_oracle;
mod compounds;
mod count_refused;
mod every_policy;
mod generosity;
mod honesty;
mod laws;
mod logs;
mod meeting;
mod operations;
mod oracle;
mod overflow;
mod policies;
mod redis;
mod refunds;
mod sliding_counter;
mod sliding_log;
mod sliding_window;
mod store;
mod threads;
mod trace;
mod twins;
