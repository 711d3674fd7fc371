//! The token bucket with continuous refill.
//!
//! **Law:** at most capacity + t·tokens/every units in any window of length t.
//!
//! The bucket starts full and gains `tokens` evenly over each `every`. Its level is not stored:
//! a bucket that will be full at time T has capacity − (T − now)·tokens/every in it, so the state
//! is T, the theoretical arrival time of GCRA, and refilling costs nothing and rounds nothing.
//!
//! Source: the token bucket of the Go + Redis limiter, which stores a level and a time, refills
//! by a rounded amount on each request, and does so in several steps.

use super::InvalidNumber;
use super::rate::{Rate, RateBased, RateOptions};
use crate::time::Micros;

const OPTIONS: RateOptions =
    RateOptions { units: "refill.tokens", period: "refill.every", burst: "capacity" };

/// A bucket of `capacity` tokens that gains `tokens` per `every`, continuously.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBucket(Rate);

impl TokenBucket {
    /// A bucket of `capacity` tokens, full at first, that gains `tokens` evenly in each `every`.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a number that is 0 or too large to count exactly.
    pub fn new(capacity: u64, tokens: u64, every: Micros) -> Result<Self, InvalidNumber> {
        Rate::new(&OPTIONS, tokens, every, capacity).map(Self)
    }
}

impl RateBased for TokenBucket {
    #[inline]
    fn rate(&self) -> &Rate {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Algorithm as _, Outcome};

    #[test]
    fn a_full_bucket_empties_at_once_and_refills_evenly() {
        let bucket = TokenBucket::new(5, 2, 1_000_000).unwrap();
        let mut state = bucket.unused();
        assert_eq!(bucket.charge(&mut state, 0, 5), Outcome::Admitted);
        assert_eq!(bucket.remaining(&state, 499_999), 0);
        assert_eq!(bucket.remaining(&state, 500_000), 1);
        assert_eq!(bucket.remaining(&state, 2_499_999), 4);
        assert_eq!(bucket.remaining(&state, 2_500_000), 5);
    }

    #[test]
    fn errors_speak_of_capacity_and_refill() {
        assert_eq!(TokenBucket::new(0, 1, 1).unwrap_err().option, "capacity");
        assert_eq!(TokenBucket::new(1, 0, 1).unwrap_err().option, "refill.tokens");
        assert_eq!(TokenBucket::new(1, 1, 0).unwrap_err().option, "refill.every");
    }
}
