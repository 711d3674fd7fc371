//! What the faces towards JavaScript have in common: what is asked and answered, as numbers.
//!
//! Node's ([`binding`](crate::binding)) and that of WebAssembly (`wasm`) bring the keys, and places for the
//! answers. Nothing here knows either of them.

pub(crate) mod operation;
pub(crate) mod policy;
pub(crate) mod reservation;
pub(crate) mod response;
#[cfg(any(feature = "redis", feature = "wasm-redis"))]
pub(crate) mod responses;

use crate::time::{MAX_SAFE, Micros};

/// A whole number from JavaScript, or 0 for what is none: every rule refuses 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "only whole numbers from 0 to 2^53 - 1 are cast, and those exactly"
)]
pub(crate) fn whole(number: f64) -> u64 {
    // The cast cuts off fractions and saturates, so what comes back equal was whole.
    let cut = number as u64;
    if cut as f64 == number && cut <= MAX_SAFE { cut } else { 0 }
}

/// Epoch milliseconds from JavaScript as the nearest microsecond; `None` for a time before 1970.
pub(crate) fn micros(epoch_ms: f64) -> Option<Micros> {
    (epoch_ms >= 0.0).then(|| whole((epoch_ms * 1_000.0 + 0.5).floor()))
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

    /// Most fractions of a millisecond have no exact double. Rounding down let a caller who asked again
    /// at `at + retryAfterMs` be a microsecond early.
    #[test]
    fn every_microsecond_comes_back_from_milliseconds() {
        for start in [0, 1_763_630_000_000_000, 3_000_000_000_000_000] {
            for time in start..start + 5_000 {
                #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
                let epoch_ms = time as f64 / 1_000.0;
                assert_eq!(micros(epoch_ms), Some(time));
            }
        }
    }
}
