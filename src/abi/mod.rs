//! The numbers that both bindings exchange with JavaScript: operations and responses.
//!
//! The Node addon (`node`) and the WebAssembly modules (`wasm`) supply the keys and the response
//! buffers. Nothing here depends on either of them.

pub(crate) mod operation;
pub(crate) mod response;
#[cfg(any(feature = "redis", feature = "wasm-redis"))]
pub(crate) mod responses;

use crate::time::{MAX_SAFE, Micros};

/// Converts a number from JavaScript to a whole number. Any other number becomes 0, which every
/// rule refuses.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "only whole numbers from 0 to 2^53 - 1 are cast, and those exactly"
)]
pub(crate) fn whole(number: f64) -> u64 {
    // The cast truncates fractions and saturates, so a number that comes back equal was whole.
    let cut = number as u64;
    if cut as f64 == number && cut <= MAX_SAFE { cut } else { 0 }
}

/// Converts epoch milliseconds from JavaScript to the nearest microsecond; `None` for a time before
/// 1970.
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

    /// Most fractions of a millisecond have no exact double. When they were rounded down, a caller
    /// who retried at `at + retryAfterMs` could be a microsecond early.
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
