//! Scheduled reservations: a call that would be refused gets the time at which it may proceed.
//!
//! A *slot* is the first whole microsecond at which a cost would be admitted if no other call came.
//! To schedule a call is to charge its cost as of its slot. Slots are assigned in call order, and
//! until the last slot has come no call is admitted before it. So slots obey the law of the rate as
//! calls do.
//!
//! Under several policies a call uses the latest of their slots under each of them.
//!
//! Source: the pacer whose `Take` blocks until its slot. Differences: a slot is known at once and
//! can be cancelled, and a wait can be refused because it would be too long.

use std::sync::Arc;

use super::arrival::{Arrival, MAX_WAIT, RateNumbers, RateState};
use crate::algorithm::rate::Rate;
use crate::algorithm::{Algorithm, Outcome};
use crate::time::{MAX_SAFE, Micros};

/// A scheduled reservation: a slot ahead for which units were charged. [`Rate::cancel`]
/// cancels it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledReservation {
    /// The state before the charge.
    pub before: RateState,
    /// The state after the charge.
    pub after: RateState,
}

/// The numbers of a rate's state.
const STATE_LENGTH: usize = 7;

/// The numbers of a scheduled reservation under a rate: those of the states before and after it.
pub const SCHEDULED_RESERVATION_LENGTH: usize = 2 * STATE_LENGTH;

impl RateState {
    /// The state as numbers below 2^53.
    #[must_use]
    pub fn to_numbers(&self) -> [u64; STATE_LENGTH] {
        let RateNumbers { period, units, burst, lingers, scheduled_until } = *self.numbers;
        let Arrival { micros, part } = self.arrival;
        [micros, part, period, units, burst, u64::from(lingers), scheduled_until]
    }

    /// The state of these numbers; `None` if they are invalid: no policy takes longer than
    /// [`MAX_SAFE`] microseconds to drain.
    #[must_use]
    pub fn from_numbers(numbers: &[u64]) -> Option<Self> {
        let &[micros, part, period, units, burst, lingers, scheduled_until] = numbers else {
            return None;
        };
        if period == 0 || units == 0 || burst == 0 || part >= units {
            return None;
        }
        let numbers = RateNumbers { period, units, burst, lingers: lingers > 0, scheduled_until };
        if numbers.time_of(burst).micros > MAX_SAFE {
            return None;
        }
        Some(Self { arrival: Arrival { micros, part }, numbers: Arc::new(numbers) })
    }
}

impl ScheduledReservation {
    /// The reservation as [`SCHEDULED_RESERVATION_LENGTH`] numbers below 2^53.
    #[must_use]
    pub fn to_numbers(&self) -> [u64; SCHEDULED_RESERVATION_LENGTH] {
        let mut numbers = [0; SCHEDULED_RESERVATION_LENGTH];
        numbers[..STATE_LENGTH].copy_from_slice(&self.before.to_numbers());
        numbers[STATE_LENGTH..].copy_from_slice(&self.after.to_numbers());
        numbers
    }

    /// The reservation of these numbers; `None` if they are invalid.
    #[must_use]
    pub fn from_numbers(numbers: &[u64]) -> Option<Self> {
        let (before, after) = numbers.split_at_checked(STATE_LENGTH)?;
        Some(Self {
            before: RateState::from_numbers(before)?,
            after: RateState::from_numbers(after)?,
        })
    }
}

impl Rate {
    /// The first whole microsecond from `now` on at which `cost` units, at least 1, would be
    /// admitted if no other call came; `None` if they never fit. The state has been
    /// [normalized](Algorithm::normalize) at `now`.
    ///
    /// It charges nothing: the caller decides whether the wait is too long.
    #[must_use]
    pub fn slot(&self, state: &RateState, now: Micros, cost: u64) -> Option<Micros> {
        match self.outcome(state, now, cost) {
            Outcome::Admitted => Some(now),
            Outcome::Refused => Some(self.retry_at(state, now, cost)),
            Outcome::Impossible => None,
        }
    }

    /// Charges `cost` units, at least 1, as of `slot`, which is the call's slot or a later time, at
    /// most [`MAX_WAIT`] after `now`. For any other time it charges nothing and returns `None`. The
    /// state has been normalized at `now`.
    pub fn schedule(
        &self,
        state: &mut RateState,
        now: Micros,
        cost: u64,
        slot: Micros,
    ) -> Option<ScheduledReservation> {
        if cost == 0 || !(now..=now.saturating_add(MAX_WAIT)).contains(&slot) {
            return None;
        }
        let arrival = self.arrival_after(state, slot, cost).ok()?;
        let numbers = match slot > now {
            true => Arc::new(self.numbers().with_scheduled_until(slot)),
            false => self.shared_numbers(),
        };
        let after = RateState { arrival, numbers };
        Some(ScheduledReservation { before: std::mem::replace(state, after.clone()), after })
    }

    /// Cancels a scheduled reservation, and returns whether it did. It does so only if the state is
    /// still that after the reservation: nothing was scheduled or taken since. The state then
    /// becomes that before the reservation.
    pub fn cancel(&self, state: &mut RateState, reservation: &ScheduledReservation) -> bool {
        let is_last = *state == reservation.after;
        if is_last {
            state.clone_from(&reservation.before);
        }
        is_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Arrival, ChargeRecord, Gcra, Levels, RateBased as _, TokenBucket};

    const SECOND: Micros = 1_000_000;

    fn per_second(limit: u64, burst: u64) -> Rate {
        Gcra::new(limit, SECOND, burst).unwrap().rate().clone()
    }

    /// Waits as long as necessary.
    fn wait(rate: &Rate, state: &mut RateState, now: Micros, cost: u64) -> Micros {
        rate.normalize(state, now);
        let slot = rate.slot(state, now, cost).unwrap();
        assert!(rate.schedule(state, now, cost, slot).is_some());
        slot
    }

    #[test]
    fn a_rate_that_drains_for_longer_than_any_policy_is_no_state() {
        let numbers = |period, burst| [7, 0, period, 1, burst, 0, 0];
        let longest = RateState::from_numbers(&numbers(MAX_SAFE, 1)).unwrap();
        assert!(longest.numbers.horizon(MAX_SAFE).is_some());
        assert_eq!(RateState::from_numbers(&numbers(MAX_SAFE, 2)), None);
        assert_eq!(RateState::from_numbers(&numbers(MAX_SAFE, MAX_SAFE)), None);
    }

    #[test]
    fn slots_follow_each_other_at_the_interval() {
        let ten = per_second(10, 2);
        let mut state = ten.initial_state();
        let slots = [0; 5].map(|now| wait(&ten, &mut state, now, 1));
        assert_eq!(slots, [0, 0, 100_000, 200_000, 300_000]);
        assert_eq!(wait(&ten, &mut state, 250_000, 2), 500_000);
    }

    #[test]
    fn nobody_overtakes_those_who_wait() {
        let ten = per_second(10, 10);
        let mut state = ten.initial_state();
        ten.normalize(&mut state, 0);
        // Another policy's slot is later than the slot of this one.
        ten.schedule(&mut state, 0, 1, SECOND).unwrap();
        assert_eq!(
            (ten.charge(&mut state, SECOND - 1, 1), ten.remaining(&state, 0)),
            (Outcome::Refused, 0)
        );
        assert_eq!((ten.retry_at(&state, 0, 1), ten.slot(&state, 0, 1)), (SECOND, Some(SECOND)));
        assert_eq!(ten.remaining(&state, SECOND), 9);
        assert_eq!(ten.charge(&mut state, SECOND, 9), Outcome::Admitted);
        assert_eq!(state.numbers, ten.shared_numbers(), "a call clears the mark");
    }

    #[test]
    fn only_its_own_slot_or_a_later_one_within_an_hour_can_be_scheduled() {
        let one = per_second(1, 1);
        let mut state = one.initial_state();
        one.charge(&mut state, 0, 1);
        let before = state.clone();
        for (cost, slot) in [(1, SECOND - 1), (1, MAX_WAIT + 1), (2, SECOND), (0, SECOND)] {
            assert_eq!(one.schedule(&mut state, 0, cost, slot), None, "{cost} at {slot}");
        }
        assert_eq!((one.schedule(&mut state, 500, 1, 499), one.slot(&state, 0, 2)), (None, None));
        assert_eq!(state, before);
        assert!(one.schedule(&mut state, 0, 1, MAX_WAIT).is_some());
    }

    #[test]
    fn a_slot_is_cancelled_only_if_no_later_call_was_charged() {
        let one = per_second(1, 1);
        let mut state = one.initial_state();
        one.charge(&mut state, 0, 1);
        let before = state.clone();
        let first = one.schedule(&mut state, 0, 1, SECOND).unwrap();
        let second = one.schedule(&mut state, 0, 1, 2 * SECOND).unwrap();
        assert!(!one.cancel(&mut state, &first));
        assert!(one.cancel(&mut state, &second));
        assert!(!one.cancel(&mut state, &second), "once");
        assert!(one.cancel(&mut state, &first));
        assert_eq!(state, before);
    }

    #[test]
    fn a_scheduled_reservation_converts_to_numbers_and_back() {
        let levels = Levels { capacity: 3, initial: 1, debt: 2 };
        let bucket = TokenBucket::with_levels(levels, 7, SECOND).unwrap();
        let mut state = bucket.initial_state();
        bucket.normalize(&mut state, 7);
        let reservation = bucket.rate().schedule(&mut state, 7, 2, SECOND).unwrap();
        let numbers: Vec<_> = reservation.to_numbers().into();
        assert_eq!(numbers.len(), SCHEDULED_RESERVATION_LENGTH);
        assert_eq!(ScheduledReservation::from_numbers(&numbers), Some(reservation));
        assert_eq!(ScheduledReservation::from_numbers(&numbers[1..]), None);
        assert_eq!(ScheduledReservation::from_numbers(&[0; SCHEDULED_RESERVATION_LENGTH]), None);
    }

    // promise: refund-at-most-taken
    /// Otherwise two callers would proceed in one microsecond: the second waiting caller and the
    /// next one to schedule.
    #[test]
    fn nothing_comes_back_while_somebody_waits() {
        let one = per_second(1, 1);
        let mut state = one.initial_state();
        one.charge(&mut state, 0, 1);
        let slots = [0; 2].map(|now| wait(&one, &mut state, now, 1));
        let reset_at = 4 * SECOND + 1_000;
        let taken = ChargeRecord { reset_at, ..ChargeRecord::default() };
        assert_eq!(one.refund(&mut state, SECOND / 2, 1, taken), 0);
        assert_eq!((slots, wait(&one, &mut state, 0, 1)), ([SECOND, 2 * SECOND], 3 * SECOND));
        assert_eq!(one.refund(&mut state, 3 * SECOND, 1, taken), 1);
        assert_eq!(wait(&one, &mut state, 3 * SECOND, 1), 3 * SECOND);
    }

    /// If waiting callers were counted as of now, a faster version would assign their times again:
    /// eleven units from 1.1 s to 2 s, where ten are the bound.
    #[test]
    fn another_version_schedules_after_waiting_callers() {
        let (slow, fast) = (per_second(1, 1), per_second(10, 1));
        let mut state = slow.initial_state();
        let slots = [0; 11].map(|now| wait(&slow, &mut state, now, 1));
        assert_eq!(slots[10], 10 * SECOND);
        // The unit of the last slot is still charged then, and drains at the new rate.
        assert_eq!(wait(&fast, &mut state, 0, 1), 11 * SECOND);
        assert_eq!(wait(&fast, &mut state, 0, 1), 11 * SECOND + 100_000);
    }

    #[test]
    fn a_clock_that_jumps_far_ahead_and_back_locks_a_key_for_no_longer_than_the_horizon() {
        let ten = per_second(10, 10);
        let mut state = ten.initial_state();
        let day = 86_400 * SECOND;
        ten.charge(&mut state, day, 10);
        wait(&ten, &mut state, day, 1);
        ten.normalize(&mut state, 0);
        assert_eq!(state.arrival, Arrival { micros: SECOND, part: 0 });
        assert_eq!(ten.charge(&mut state, SECOND, 10), Outcome::Admitted);
        // A short clock step does not matter: waiting callers keep their slots.
        ten.charge(&mut state, 2 * SECOND, 10);
        assert_eq!(wait(&ten, &mut state, 2 * SECOND, 1), 2_100_000);
        assert_eq!(wait(&ten, &mut state, SECOND, 1), 2_200_000);
    }

    #[test]
    fn a_bucket_that_begins_low_schedules_from_its_first_call() {
        let levels = Levels { capacity: 3, initial: 0, debt: 0 };
        let bucket = TokenBucket::with_levels(levels, 1, SECOND).unwrap();
        let mut state = bucket.initial_state();
        bucket.normalize(&mut state, 7);
        let slot = bucket.rate().slot(&state, 7, 2).unwrap();
        assert_eq!(slot, 2 * SECOND + 7);
        assert!(bucket.rate().schedule(&mut state, 7, 2, slot).is_some());
        assert_eq!(bucket.rate().slot(&state, 7, 1), Some(3 * SECOND + 7));
        assert!(state.numbers.lingers);
    }
}
