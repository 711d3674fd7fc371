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

mod answer;
mod booking;
mod hot;
mod key;
mod ledger;
mod operation;
mod policies;
mod policy;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redis_answers;
#[cfg(feature = "redis")]
mod redis_ledger;
#[cfg(feature = "redis")]
mod redis_listener;
#[cfg(feature = "redis")]
mod redis_notices;
#[cfg(feature = "redis")]
mod redis_reader;
#[cfg(feature = "redis")]
mod redis_target;
mod store;
#[cfg(all(feature = "redis", unix))]
mod uv;

use crate::time::{MAX_SAFE, Micros};

/// A whole number from JavaScript, or 0 for what is none: every rule refuses 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "only whole numbers from 0 to 2^53 - 1 are cast, and those exactly"
)]
fn whole(number: f64) -> u64 {
    // The cast cuts off fractions and saturates, so what comes back equal was whole.
    let cut = number as u64;
    if cut as f64 == number && cut <= MAX_SAFE { cut } else { 0 }
}

/// Epoch milliseconds from JavaScript as microseconds; `None` for a time before 1970.
fn micros(epoch_ms: f64) -> Option<Micros> {
    (epoch_ms >= 0.0).then(|| whole((epoch_ms * 1_000.0).floor()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_are_numbers() {
        assert_eq!(whole(7.0), 7);
        assert_eq!(whole(9_007_199_254_740_991.0), MAX_SAFE);
        for none in [9_007_199_254_740_992.0, 0.5, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(whole(none), 0, "{none}");
        }
    }

    #[test]
    fn times_keep_their_microseconds() {
        assert_eq!(micros(1_763_630_000_000.25), Some(1_763_630_000_000_250));
        assert_eq!(micros(0.0), Some(0));
        assert_eq!(micros(-1.0), None);
        assert_eq!(micros(f64::NAN), None);
    }
}
