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

    #[test]
    fn errors_speak_of_capacity_and_refill() {
        assert_eq!(TokenBucket::new(0, 1, 1).unwrap_err().option, "capacity");
        assert_eq!(TokenBucket::new(1, 0, 1).unwrap_err().option, "refill.tokens");
        assert_eq!(TokenBucket::new(1, 1, 0).unwrap_err().option, "refill.every");
    }

    const SECOND: Micros = 1_000_000;

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
