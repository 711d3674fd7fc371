//! The token bucket with continuous refill.
//!
//! **Law:** at most capacity + t·tokens/every units in any window of length t. If the bucket may be
//! overdrawn, debt units more are admitted (once, however long the window is). An initial level
//! below the capacity only lowers the bound.
//!
//! The bucket starts full, or with `initial` tokens, and gains `tokens` evenly over each `every`.
//! The level is not stored: a bucket that will be full at the time T contains capacity − (T −
//! now)·tokens/every. So the state is T, the theoretical arrival time of GCRA, and a refill costs
//! nothing and rounds nothing.
//!
//! [`Levels`] defines the largest cost, and the state of a key that does not begin full.
//!
//! Source: the token bucket of the Go + Redis limiter, which stores a level and a time, refills by
//! a rounded amount on each request, and does so in several steps. Debt is pre-consumption.

use super::{Rate, RateBased, RateOptions};
use crate::algorithm::InvalidNumber;
use crate::algorithm::shared::levels::Levels;
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
        Self::with_levels(Levels::full(capacity), tokens, every)
    }

    /// A bucket with these levels.
    ///
    /// # Errors
    /// [`InvalidNumber`] as for [`new`](Self::new), or if `initial` is above the capacity.
    pub fn with_levels(levels: Levels, tokens: u64, every: Micros) -> Result<Self, InvalidNumber> {
        Rate::with_levels(&OPTIONS, tokens, every, levels).map(Self)
    }
}

impl TokenBucket {
    /// The same bucket for a rate whose main number is another one than the capacity.
    pub(crate) fn with_limit(self, limit: u64) -> Self {
        Self(self.0.with_limit(limit))
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
    use crate::algorithm::{Algorithm as _, KeyState as _, LINGER, Outcome};

    #[test]
    fn a_full_bucket_empties_at_once_and_refills_evenly() {
        let bucket = TokenBucket::new(5, 2, 1_000_000).unwrap();
        let mut state = bucket.initial_state();
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

    const SECOND: Micros = 1_000_000;

    fn with(capacity: u64, initial: u64, debt: u64) -> TokenBucket {
        TokenBucket::with_levels(Levels { capacity, initial, debt }, 1, SECOND).unwrap()
    }

    /// Pre-consumption: a large call is admitted, and later calls pay for it.
    #[test]
    fn a_bucket_in_debt_waits_for_a_whole_token() {
        let bucket = with(3, 3, 4);
        let mut state = bucket.initial_state();
        assert_eq!((bucket.capacity(), bucket.remaining(&state, 0)), (7, 7));
        assert_eq!(bucket.charge(&mut state, 0, 8), Outcome::Impossible);
        assert_eq!(bucket.charge(&mut state, 0, 2), Outcome::Admitted);
        assert_eq!(bucket.charge(&mut state, 0, 6), Outcome::Refused);
        assert_eq!(bucket.retry_at(&state, 0, 6), SECOND);
        assert_eq!(bucket.charge(&mut state, 0, 5), Outcome::Admitted);
        assert_eq!(bucket.remaining(&state, 5 * SECOND - 1), 0);
        assert_eq!(bucket.charge(&mut state, 5 * SECOND - 1, 1), Outcome::Refused);
        assert_eq!(bucket.retry_at(&state, 0, 1), 5 * SECOND);
        assert_eq!(bucket.remaining(&state, 5 * SECOND), 5);
        assert_eq!(bucket.charge(&mut state, 5 * SECOND, 5), Outcome::Admitted);
    }

    #[test]
    fn a_bucket_that_begins_low_fills_from_its_first_call() {
        let bucket = with(3, 1, 0);
        let mut state = bucket.initial_state();
        assert_eq!((bucket.remaining(&state, 9), state.reset_at()), (1, 0));
        assert_eq!(bucket.charge(&mut state, 9, 2), Outcome::Refused);
        assert_eq!(bucket.retry_at(&state, 9, 2), SECOND + 9);
        let day_later = 2 * SECOND + 9 + LINGER;
        assert_eq!(state.reset_at(), day_later);
        assert_eq!(bucket.remaining(&state, day_later - 1), 3);
        assert_eq!(bucket.remaining(&state, day_later), 1);
        assert_eq!(bucket.charge(&mut state, day_later, 4), Outcome::Impossible);
        assert_eq!(bucket.remaining(&state, day_later + SECOND), 2, "it has begun");
    }

    /// Otherwise the store would have dropped the key by the retry time of a refusal.
    #[test]
    fn what_a_full_bucket_wrote_is_kept_longer_by_one_that_begins_low() {
        let (full, low) = (with(3, 3, 0), with(3, 1, 0));
        let mut state = full.initial_state();
        assert_eq!(full.charge(&mut state, 0, 2), Outcome::Admitted);
        assert_eq!(state.reset_at(), 2 * SECOND);
        assert_eq!(low.charge(&mut state, 0, 3), Outcome::Refused);
        assert_eq!(state.reset_at(), 2 * SECOND + LINGER);
        assert_eq!(low.retry_at(&state, 0, 3), 2 * SECOND);
        assert_eq!(low.charge(&mut state, 2 * SECOND, 3), Outcome::Admitted);
    }

    #[test]
    fn errors_speak_of_initial_and_debt() {
        let error = |levels, every| TokenBucket::with_levels(levels, 1, every).unwrap_err().option;
        let day = 86_400 * SECOND;
        assert_eq!(error(Levels { initial: 6, ..Levels::full(5) }, 1), "initial");
        assert_eq!(error(Levels { debt: 100_000, ..Levels::full(5) }, day), "debt");
        assert_eq!(error(Levels { initial: 5, ..Levels::full(52_124) }, day), "initial");
        assert!(TokenBucket::new(52_124, 1, day).is_ok());
    }
}
