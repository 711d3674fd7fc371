//! The engine of the npm package `tollgate`: exact rate limiting, decided with integers.
//!
//! The crate is layered, and each layer knows only those before it:
//!
//! 1. [`algorithm`]: pure functions `(policy, state, now, cost) -> (state, outcome)`. They know no
//!    clock, no store and no Node.
//! 2. [`policy`]: one type for any algorithm's numbers, and one for any algorithm's state.
//! 3. [`policies`]: what a limiter enforces: one policy, or several that decide together.
//! 4. [`operation`]: what can be asked of a key.
//! 5. [`decision`]: the decision on a call, computed from a policy, a state and a time.
//! 6. [`multi_policy`]: decisions that report several limits by name.
//! 7. [`execute`]: executes an operation on the states of several policies.
//! 8. [`store`]: where states live and what makes a decision atomic.
//! 9. `face`: what is asked and answered, as numbers.
//! 10. `binding` (feature `node`): the thin face towards Node.
//! 11. `wasm` (features `wasm` and `wasm-redis`): the thin face as WebAssembly.
//!
//! [`clock`], [`key`], [`time`] and [`short_list`] know nothing of all this.
//!
//! `ARCHITECTURE.md` beside `Cargo.toml` is the map.

pub mod algorithm;
pub mod calendar;
pub mod clock;
pub mod decision;
pub mod execute;
pub mod key;
pub mod multi_policy;
pub mod operation;
pub mod policies;
pub mod policy;
pub mod short_list;
pub mod store;
pub mod time;

#[cfg(feature = "node")]
mod binding;
#[cfg(any(feature = "node", feature = "wasm", feature = "wasm-redis"))]
#[cfg_attr(
    not(any(feature = "node", feature = "wasm")),
    allow(dead_code, reason = "a part of it is for the embedded store")
)]
mod face;
#[cfg(any(feature = "wasm", feature = "wasm-redis"))]
mod wasm;
