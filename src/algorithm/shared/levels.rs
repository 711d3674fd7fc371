//! The levels of a bucket: its capacity, its initial level, and its debt.
//!
//! A bucket's level is its capacity less the units used. A call is admitted if the level is at
//! least 1 and stays at −debt or above; so the largest cost that a call can have is capacity +
//! debt, and a bucket in debt admits nothing until it has a whole token again.
//!
//! A bucket that begins with less than its capacity must remember that it has begun. So its first
//! call is recorded even if it is refused, and the key is kept until it has been full for 24 hours
//! ([`LINGER`]). Then it is fresh, and may be dropped. Each state records whether it lingers, because
//! a store drops a state without knowing the policies that read it.

use crate::algorithm::InvalidNumber;
use crate::time::{MAX_SAFE, MICROS_PER_MILLI, Micros};

/// How long a key that began with less than its capacity is kept after it is full.
pub const LINGER: Micros = 24 * 60 * 60 * 1_000 * MICROS_PER_MILLI;

/// The rule for a bucket that does not begin full and takes too long to fill.
pub(crate) const LINGERS_TOO_LONG: &str = "can be below the capacity only if the bucket refills \
                                           within 2^52 µs (142 years) less a day";

/// The levels of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    /// The units of a full bucket.
    pub capacity: u64,
    /// The units at the first call.
    pub initial: u64,
    /// How many units below 0 a call may take the bucket.
    pub debt: u64,
}

impl Levels {
    /// A bucket that begins full and has no debt.
    #[must_use]
    pub fn full(capacity: u64) -> Self {
        Self { capacity, initial: capacity, debt: 0 }
    }

    /// Checks the levels that do not depend on the refill; the capacity has been checked.
    pub(crate) fn check(self) -> Result<(), InvalidNumber> {
        if self.initial > self.capacity {
            return Err(InvalidNumber { option: "initial", rule: "must be at most the capacity" });
        }
        if self.debt > MAX_SAFE - self.capacity {
            let rule = "must be so small that capacity + debt is below 2^53";
            return Err(InvalidNumber { option: "debt", rule });
        }
        Ok(())
    }

    /// The most units that may be used at once, which is the largest cost.
    #[inline]
    #[must_use]
    pub fn max_used(self) -> u64 {
        self.capacity + self.debt
    }

    /// Whether the first call of a key must be recorded.
    #[inline]
    #[must_use]
    pub fn begins_low(self) -> bool {
        self.initial < self.capacity
    }

    /// The units that are used at the first call.
    #[inline]
    #[must_use]
    pub fn used_at_first(self) -> u64 {
        self.capacity - self.initial
    }

    /// Whether a call of `cost` units, at least 1, is admitted when `used` units are used.
    #[inline]
    pub(crate) fn admit(self, used: u64, cost: u64) -> bool {
        used < self.capacity && cost <= self.max_used() - used
    }

    /// The largest cost that is admitted when `used` units are used.
    #[inline]
    pub(crate) fn remaining(self, used: u64) -> u64 {
        if used < self.capacity { self.max_used() - used } else { 0 }
    }

    /// The most units that may be used for `cost`, at least 1, to be admitted.
    #[inline]
    pub(crate) fn room_for(self, cost: u64) -> u64 {
        self.max_used().saturating_sub(cost).min(self.capacity - 1)
    }
}

/// The time at which a key is fresh, given the time at which it is full; 0 for a key that was never
/// used.
#[inline]
pub(crate) fn reset_at(full_at: Micros, lingers: bool) -> Micros {
    if lingers && full_at > 0 { full_at.saturating_add(LINGER) } else { full_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVERDRAWN: Levels = Levels { capacity: 5, initial: 2, debt: 3 };

    #[test]
    fn the_largest_cost_that_remains_is_admitted_and_no_larger_one() {
        for levels in [OVERDRAWN, Levels::full(5), Levels { debt: 0, ..OVERDRAWN }] {
            for used in 0..=levels.max_used() {
                let remaining = levels.remaining(used);
                assert!(remaining == 0 || levels.admit(used, remaining), "{used}");
                assert!(!levels.admit(used, remaining + 1), "{used}");
            }
        }
    }

    #[test]
    fn the_room_for_a_cost_is_the_most_that_may_be_used() {
        for cost in 1..=OVERDRAWN.max_used() {
            let level = OVERDRAWN.room_for(cost);
            assert!(OVERDRAWN.admit(level, cost) && !OVERDRAWN.admit(level + 1, cost), "{cost}");
        }
    }

    /// A state in a reply may have any numbers.
    #[test]
    fn a_bucket_that_is_never_full_is_never_fresh() {
        assert_eq!(reset_at(Micros::MAX, true), Micros::MAX);
        assert_eq!((reset_at(0, true), reset_at(7, true)), (0, 7 + LINGER));
    }

    #[test]
    fn errors_name_the_option() {
        assert_eq!(Levels { initial: 6, ..OVERDRAWN }.check().unwrap_err().option, "initial");
        assert_eq!(Levels { debt: MAX_SAFE, ..OVERDRAWN }.check().unwrap_err().option, "debt");
        assert!(Levels { debt: MAX_SAFE - 5, ..OVERDRAWN }.check().is_ok());
    }
}
