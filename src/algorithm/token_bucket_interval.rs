//! The token bucket that is refilled at intervals: `tokens` at once at the end of each `every`.
//!
//! **Law:** between two calls at a distance of t at most capacity + tokens·⌈t/every⌉ units are
//! admitted, both calls included. So at most capacity + tokens·(⌊t/every⌋ + 1) are admitted in any
//! window of length t. If the bucket may be overdrawn, debt units more are admitted (once). Refills
//! are at least `every` apart, so at most ⌈t/every⌉ of them are after the first call and not after
//! the last.
//!
//! The intervals start at the call that takes the first token of a full bucket. A full bucket does
//! not refill, so it is fresh. A lone caller gets the capacity at once, and `tokens` to the
//! microsecond at the end of each interval from then on.
//!
//! The state is a level and the time of the last counted refill (the anchor). Later refills are
//! counted at the next call. All are whole numbers: nothing is rounded.
//!
//! **Changed numbers.** A state carries the numbers that it was written with. Used units are never
//! reduced. They are refilled by the old `tokens` and `every` until a call is admitted, which
//! writes the new numbers. The current interval continues if it has not ended under the new
//! `every`, and otherwise restarts: so no two refills are closer than the shorter `every`. The
//! bound across a change, also with several versions side by side, is the law with the largest
//! capacity + debt, the most tokens and the shortest `every`.
//!
//! **Refunds.** Units are refilled in the order in which they were taken. After a call, so many
//! units were used; the refills since and the units that came back since (see
//! [`Mark`](crate::policy::mark::Mark)) are no longer. Of the rest a refund returns at most the units
//! of the call, so never units of other calls. Refills continue as before.
//!
//! **Clock steps.** While the clock is behind the anchor nothing is refilled, and a call that is
//! admitted restarts the interval. A state that would be full later than a fully used one becomes
//! fully used now.
//!
//! Source: two descriptions of a bucket refilled at intervals. Differences: the bucket is created,
//! refilled and charged in one step, and time is not truncated to whole seconds.

use std::sync::Arc;

use super::{
    Algorithm, ChargeRecord, InvalidNumber, KeyState, Outcome, Rewrites, checked_length,
    checked_units,
};
use crate::algorithm::shared::levels::{self, LINGER, Levels};
use crate::time::{MAX_TIME, MICROS_PER_MILLI, Micros};

/// The numbers that a state is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntervalNumbers {
    /// The length of an interval.
    pub every: Micros,
    /// The units that are refilled at the end of each interval.
    pub tokens: u64,
    /// The most units that may be used at once: capacity + debt.
    pub max_used: u64,
    /// Whether the key must be kept for a day after it is full, because it began with less.
    pub lingers: bool,
}

impl IntervalNumbers {
    /// The time in which `used` units are refilled.
    fn time_of(self, used: u64) -> Micros {
        used.div_ceil(self.tokens).saturating_mul(self.every)
    }
}

/// The state of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntervalState {
    /// The start of the current interval: the time of the last counted refill, or of the call that
    /// took the first token.
    pub anchor: Micros,
    /// The units used and not refilled at the anchor.
    pub used: u64,
    /// The numbers of the policy that wrote this state; a million states share them.
    pub numbers: Arc<IntervalNumbers>,
}

impl IntervalState {
    /// When the bucket will be full; 0 if the key was never used.
    fn full_at(&self) -> Micros {
        self.anchor.saturating_add(self.numbers.time_of(self.used))
    }

    /// The units used and not refilled at a time. If a clock step left the state beyond its
    /// horizon, they are the most that may be used.
    #[must_use]
    pub fn used_at(&self, now: Micros) -> u64 {
        let IntervalNumbers { max_used, .. } = *self.numbers;
        if self.anchor > now && self.full_at() > now.saturating_add(self.numbers.time_of(max_used))
        {
            return max_used;
        }
        self.at(now).1
    }

    /// The anchor and the used units, with all refills counted up to `now`. If no units are used,
    /// the bucket is full, and the anchor is meaningless.
    fn at(&self, now: Micros) -> (Micros, u64) {
        let IntervalNumbers { every, tokens, .. } = *self.numbers;
        let elapsed = now.saturating_sub(self.anchor);
        if elapsed < every {
            return (self.anchor, self.used);
        }
        let refills = elapsed / every;
        if refills >= self.used.div_ceil(tokens) {
            return (now, 0);
        }
        (self.anchor + refills * every, self.used - refills * tokens)
    }
}

impl KeyState for IntervalState {
    fn reset_at(&self) -> Micros {
        levels::reset_at(self.full_at(), self.numbers.lingers)
    }

    /// A full bucket can be refilled at other times than the one that replaces it.
    fn drains(&self) -> bool {
        false
    }
}

/// A bucket that gains `tokens` at the end of each `every`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntervalBucket {
    levels: Levels,
    numbers: Arc<IntervalNumbers>,
}

impl IntervalBucket {
    /// A bucket of these levels that gains `tokens` at once at the end of each `every`.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a number that is 0 or too large to count exactly. The time from fully
    /// used to full must be at most 2^52 µs, and a day less if the bucket does not begin full.
    pub fn new(levels: Levels, tokens: u64, every: Micros) -> Result<Self, InvalidNumber> {
        checked_units("capacity", levels.capacity)?;
        checked_units("refill.tokens", tokens)?;
        checked_length("refill.every", every)?;
        levels.check()?;
        let (max_used, lingers) = (levels.max_used(), levels.begins_low());
        let numbers = IntervalNumbers { every, tokens, max_used, lingers };
        for (option, used) in [("capacity", levels.capacity), ("debt", max_used)] {
            if numbers.time_of(used) > MAX_TIME {
                let rule = "must refill from empty within 2^52 µs (142 years)";
                return Err(InvalidNumber { option, rule });
            }
        }
        if lingers && numbers.time_of(max_used) > MAX_TIME - LINGER {
            let rule = levels::LINGERS_TOO_LONG;
            return Err(InvalidNumber { option: "initial", rule });
        }
        Ok(Self { levels, numbers: Arc::new(numbers) })
    }

    /// The bucket's levels.
    #[must_use]
    pub fn levels(&self) -> Levels {
        self.levels
    }

    /// The shared numbers, for states.
    #[must_use]
    pub fn numbers(&self) -> Arc<IntervalNumbers> {
        Arc::clone(&self.numbers)
    }

    /// The time from fully used to full.
    #[must_use]
    pub fn horizon(&self) -> Micros {
        self.numbers.time_of(self.numbers.max_used)
    }

    /// Starts a bucket that begins low: a fresh key gets its initial level. A state of a policy
    /// that begins full is marked to be kept longer.
    fn begin(&self, state: &mut IntervalState, now: Micros) {
        if state.reset_at() <= now {
            let used = self.levels.used_at_first();
            *state = IntervalState { anchor: now, used, numbers: self.numbers() };
        } else if !state.numbers.lingers {
            state.numbers = Arc::new(IntervalNumbers { lingers: true, ..*state.numbers });
        }
    }

    /// Makes the state fully used if it was written before the clock stepped back. Only an anchor
    /// in the future shows that.
    #[inline]
    fn repair(state: &mut IntervalState, now: Micros) {
        if state.anchor > now {
            let max_used = state.numbers.max_used;
            if state.full_at() > now + state.numbers.time_of(max_used) {
                (state.anchor, state.used) = (now, max_used);
            }
        }
    }

    /// The outcome of a call of `cost` units, at least 1, when `used` units are used.
    #[inline]
    fn decide(&self, used: u64, cost: u64) -> Outcome {
        match self.levels.admit(used, cost) {
            _ if cost > self.numbers.max_used => Outcome::Impossible,
            true => Outcome::Admitted,
            false => Outcome::Refused,
        }
    }
}

impl Algorithm for IntervalBucket {
    type State = IntervalState;

    #[inline]
    fn initial_state(&self) -> IntervalState {
        IntervalState { anchor: 0, used: 0, numbers: self.numbers() }
    }

    #[inline]
    fn capacity(&self) -> u64 {
        self.numbers.max_used
    }

    #[inline]
    fn limit(&self) -> u64 {
        self.levels.capacity
    }

    #[inline]
    fn charge(&self, state: &mut IntervalState, now: Micros, cost: u64) -> Outcome {
        Self::repair(state, now);
        if cost == 0 {
            return Outcome::Admitted;
        }
        if self.levels.begins_low() {
            self.begin(state, now);
        }
        let (anchor, used) = state.at(now);
        let outcome = self.decide(used, cost);
        if outcome != Outcome::Admitted {
            return outcome;
        }
        let runs = used > 0 && anchor <= now && now - anchor < self.numbers.every;
        state.anchor = if runs { anchor } else { now };
        state.used = used + cost;
        if !Arc::ptr_eq(&state.numbers, &self.numbers) {
            state.numbers = self.numbers();
        }
        Outcome::Admitted
    }

    fn normalize(&self, state: &mut IntervalState, now: Micros) {
        Self::repair(state, now);
        if self.levels.begins_low() {
            self.begin(state, now);
        }
    }

    fn outcome(&self, state: &IntervalState, now: Micros, cost: u64) -> Outcome {
        if cost == 0 { Outcome::Admitted } else { self.decide(state.at(now).1, cost) }
    }

    /// Counts the refills up to now first. The interval continues, unless the bucket is full.
    fn refund(
        &self,
        state: &mut IntervalState,
        now: Micros,
        units: u64,
        taken: ChargeRecord,
    ) -> u64 {
        let IntervalNumbers { every, tokens, lingers, .. } = *state.numbers;
        let (anchor, used) = state.at(now);
        let lingering = if lingers { LINGER } else { 0 };
        // The decision rounded the time of the full bucket up.
        let full_at = (taken.reset_at + 1).saturating_sub(lingering + MICROS_PER_MILLI);
        if full_at <= now {
            return 0;
        }
        // At least these were used after the call; the refills since are not. The refills until the
        // bucket is full return all that are.
        let since = anchor.saturating_sub(taken.at).div_ceil(every).saturating_mul(tokens);
        let own = taken.used.max(taken.cost).saturating_sub(since);
        let refills = full_at.saturating_sub(anchor).div_ceil(every);
        let reported = refills.saturating_sub(1).saturating_mul(tokens);
        let by_order = own.max(reported).saturating_sub(taken.mark);
        // However others have moved them, the refills since returned no more of the call's units.
        let charged = by_order.max((units + taken.kept).saturating_sub(since));
        // More than the used units are not of this state.
        let given = if anchor > now || charged > used { 0 } else { units.min(charged) };
        if given > 0 {
            (state.anchor, state.used) = (if given < used { anchor } else { now }, used - given);
        }
        given
    }

    fn rewrites(&self, state: &IntervalState, _: Micros) -> Rewrites {
        let is_own = Arc::ptr_eq(&state.numbers, &self.numbers) || *state.numbers == *self.numbers;
        if is_own { Rewrites::Never } else { Rewrites::IfAdmitted }
    }

    #[inline]
    fn remaining(&self, state: &IntervalState, now: Micros) -> u64 {
        let unseen = self.levels.begins_low() && state.reset_at() <= now;
        let used = if unseen { self.levels.used_at_first() } else { state.at(now).1 };
        self.levels.remaining(used)
    }

    #[inline]
    fn retry_at(&self, state: &IntervalState, now: Micros, cost: u64) -> Micros {
        // The time of the refill after which the cost fits.
        let short = state.used.saturating_sub(self.levels.room_for(cost));
        state.anchor.saturating_add(state.numbers.time_of(short)).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;

    fn bucket(capacity: u64, tokens: u64, every: Micros) -> IntervalBucket {
        IntervalBucket::new(Levels::full(capacity), tokens, every).unwrap()
    }

    fn admitted(bucket: &IntervalBucket, state: &mut IntervalState, now: Micros, cost: u64) {
        assert_eq!(bucket.charge(state, now, cost), Outcome::Admitted, "{cost} at {now}");
    }

    fn refused(bucket: &IntervalBucket, state: &mut IntervalState, now: Micros, cost: u64) {
        let before = state.clone();
        assert_eq!(bucket.charge(state, now, cost), Outcome::Refused, "{cost} at {now}");
        assert_eq!(*state, before);
    }

    #[test]
    fn tokens_come_at_once_at_the_end_of_each_interval() {
        let bucket = bucket(5, 2, SECOND);
        let mut state = bucket.initial_state();
        admitted(&bucket, &mut state, 100, 5);
        refused(&bucket, &mut state, SECOND + 99, 1);
        assert_eq!(bucket.retry_at(&state, SECOND + 99, 1), SECOND + 100);
        assert_eq!(bucket.remaining(&state, SECOND + 100), 2);
        admitted(&bucket, &mut state, SECOND + 500, 2);
        assert_eq!((state.anchor, state.used), (SECOND + 100, 5));
        assert_eq!(bucket.remaining(&state, 2 * SECOND + 100), 2);
        assert_eq!(bucket.remaining(&state, 3 * SECOND + 100), 4);
        assert_eq!(
            (state.reset_at(), bucket.remaining(&state, u64::MAX / 2)),
            (3_000_100 + SECOND, 5)
        );
    }

    #[test]
    fn a_full_bucket_does_not_tick() {
        let bucket = bucket(2, 1, SECOND);
        let mut state = bucket.initial_state();
        admitted(&bucket, &mut state, 0, 1);
        admitted(&bucket, &mut state, 5 * SECOND + 7, 2);
        assert_eq!(state.anchor, 5 * SECOND + 7);
        refused(&bucket, &mut state, 6 * SECOND + 6, 1);
        admitted(&bucket, &mut state, 6 * SECOND + 7, 1);
    }

    /// A published design has a clock of whole seconds, for which an interval of 500 ms is 0 or 1.
    #[test]
    fn ten_per_half_a_second_come_to_the_microsecond() {
        let bucket = bucket(10, 10, SECOND / 2);
        let mut state = bucket.initial_state();
        for interval in 0..7 {
            let begins = 999_999 + interval * SECOND / 2;
            admitted(&bucket, &mut state, begins, 10);
            refused(&bucket, &mut state, begins + SECOND / 2 - 1, 1);
        }
    }

    #[test]
    fn the_cost_is_added_before_it_is_compared() {
        let bucket = bucket(10, 10, SECOND);
        let mut state = bucket.initial_state();
        admitted(&bucket, &mut state, 0, 9);
        refused(&bucket, &mut state, 0, 2);
        admitted(&bucket, &mut state, 0, 1);
    }

    #[test]
    fn a_bucket_in_debt_waits_for_a_whole_token() {
        let levels = Levels { capacity: 3, initial: 3, debt: 4 };
        let bucket = IntervalBucket::new(levels, 2, SECOND).unwrap();
        let mut state = bucket.initial_state();
        assert_eq!(bucket.charge(&mut state, 0, 8), Outcome::Impossible);
        admitted(&bucket, &mut state, 0, 2);
        assert_eq!(bucket.remaining(&state, 0), 5);
        admitted(&bucket, &mut state, 0, 5);
        refused(&bucket, &mut state, 2 * SECOND - 1, 1);
        // Seven units are used: after two refills the level is 0, and the call needs one more
        // token.
        assert_eq!(bucket.retry_at(&state, 0, 1), 3 * SECOND);
        assert_eq!(bucket.remaining(&state, 3 * SECOND), 6);
    }

    #[test]
    fn a_bucket_that_begins_empty_fills_from_its_first_call() {
        let levels = Levels { capacity: 4, initial: 0, debt: 0 };
        let bucket = IntervalBucket::new(levels, 2, SECOND).unwrap();
        let mut state = bucket.initial_state();
        assert_eq!(bucket.remaining(&state, 7), 0);
        assert_eq!(bucket.charge(&mut state, 7, 1), Outcome::Refused);
        refused(&bucket, &mut state, SECOND + 6, 1);
        let day_later = 2 * SECOND + 7 + LINGER;
        assert_eq!(state.reset_at(), day_later);
        assert_eq!(bucket.remaining(&state, day_later - 1), 4);
        assert_eq!(bucket.remaining(&state, day_later), 0);
        assert_eq!(bucket.charge(&mut state, day_later, 5), Outcome::Impossible);
        assert_eq!((state.anchor, state.used), (day_later, 4));
    }

    #[test]
    fn other_numbers_refill_as_they_were_until_a_call_is_admitted() {
        let (slow, fast) = (bucket(10, 1, 10 * SECOND), bucket(4, 2, SECOND));
        let mut state = slow.initial_state();
        admitted(&slow, &mut state, 0, 8);
        refused(&fast, &mut state, 40 * SECOND, 1);
        assert_eq!(fast.retry_at(&state, 40 * SECOND, 1), 50 * SECOND);
        assert_eq!(fast.remaining(&state, 55 * SECOND), 1);
        admitted(&fast, &mut state, 55 * SECOND, 1);
        // Five seconds are longer than the new interval, so the interval restarts.
        assert_eq!((state.anchor, state.used), (55 * SECOND, 4));
        admitted(&fast, &mut state, 56 * SECOND + 1, 1);
        admitted(&slow, &mut state, 56 * SECOND + 2, 1);
        assert_eq!((state.anchor, state.used), (56 * SECOND, 4), "the interval runs on");
    }

    #[test]
    fn a_clock_step_back_locks_a_key_for_no_longer_than_the_horizon() {
        let bucket = bucket(4, 2, SECOND);
        let mut state = bucket.initial_state();
        admitted(&bucket, &mut state, 5 * SECOND, 1);
        let mut a_little = state.clone();
        admitted(&bucket, &mut a_little, 5 * SECOND - 10, 1);
        assert_eq!((a_little.anchor, a_little.used), (5 * SECOND - 10, 2));
        assert_eq!(bucket.charge(&mut state, 0, 1), Outcome::Refused);
        assert_eq!((state.anchor, state.used), (0, 4));
        admitted(&bucket, &mut state, 2 * SECOND, 4);
    }

    #[test]
    fn illegal_numbers_are_named() {
        let option =
            |levels, tokens, every| IntervalBucket::new(levels, tokens, every).unwrap_err().option;
        let day = 86_400 * SECOND;
        assert_eq!(option(Levels::full(0), 1, 1), "capacity");
        assert_eq!(option(Levels::full(1), 0, 1), "refill.tokens");
        assert_eq!(option(Levels::full(1), 1, 0), "refill.every");
        assert_eq!(option(Levels::full(100_000), 1, day), "capacity");
        assert_eq!(option(Levels { debt: 100_000, ..Levels::full(1) }, 1, day), "debt");
        assert_eq!(option(Levels { initial: 1, ..Levels::full(52_124) }, 1, day), "initial");
        assert!(IntervalBucket::new(Levels::full(52_124), 1, day).is_ok());
    }

    #[test]
    fn what_comes_back_is_counted_after_the_refills_and_the_interval_runs_on() {
        let bucket = bucket(10, 2, SECOND);
        let taken = ChargeRecord {
            at: 100,
            reset_at: 5 * SECOND + 1_000,
            cost: 9,
            ..ChargeRecord::default()
        };
        let again = ChargeRecord { mark: 3, ..taken };
        let mut state = bucket.initial_state();
        admitted(&bucket, &mut state, 100, 9);
        assert_eq!(bucket.refund(&mut state, 2 * SECOND + 500, 3, taken), 3);
        assert_eq!((state.anchor, state.used), (2 * SECOND + 100, 2));
        assert_eq!(bucket.remaining(&state, 3 * SECOND + 100), 10);
        assert_eq!(bucket.refund(&mut state, 2 * SECOND + 600, 6, again), 2);
        assert_eq!(state.reset_at(), 2 * SECOND + 600, "a full bucket does not tick");
        assert_eq!(
            bucket.refund(&mut state, 2 * SECOND + 600, 9, ChargeRecord { mark: 5, ..taken }),
            0
        );
    }

    /// After two calls of 4 units, two refills of 2 units belong to the first.
    #[test]
    fn at_most_the_calls_own_units_come_back() {
        let bucket = bucket(10, 2, SECOND);
        let mut state = bucket.initial_state();
        admitted(&bucket, &mut state, 100, 4);
        let first = ChargeRecord {
            at: 100,
            reset_at: state.reset_at() + 999,
            cost: 4,
            ..ChargeRecord::default()
        };
        admitted(&bucket, &mut state, 200, 4);
        let refunded = |now| bucket.refund(&mut state.clone(), now, 4, first);
        assert_eq!((refunded(SECOND + 99), refunded(SECOND + 100)), (4, 2));
        assert_eq!((refunded(2 * SECOND + 99), refunded(2 * SECOND + 100)), (2, 0));
    }
}
