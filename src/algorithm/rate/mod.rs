//! The core of the rate algorithms: a theoretical arrival time, counted exactly.
//!
//! A rate of N units per P microseconds is reduced to N' units per P' microseconds. One unit takes
//! P'/N' µs, which need not be a whole number. So a time consists of whole microseconds and a part
//! in N'-ths of a microsecond ([`Arrival`]). With P' = q·N' + r, a cost of c units moves the
//! arrival by c·q microseconds and c·r parts: an integer addition with a carry, without rounding.
//! An interval rounded down to whole microseconds would admit 0.1 % too much at 1001 per second.
//!
//! **The law:** in any window of length t at most burst + t·N'/P' units are admitted. An admitted
//! call moves the arrival by its cost from max(arrival, now), and only if the arrival then lies at
//! most burst·P'/N' ahead of now. So n units admitted between s and s + t have moved the arrival
//! from at least s to at most s + t + burst·P'/N', a distance of t·N'/P' + burst units. A caller
//! alone on a fresh key gets exactly burst at once, and one unit each P'/N' µs from then on.
//!
//! **Levels.** For a bucket that may be overdrawn (see [`Levels`]), burst is its capacity + debt,
//! and a call is admitted only if at most capacity − 1 units are used before it. A bucket with an
//! initial level below its capacity starts with the difference used. Both admit less than the law
//! above with burst = capacity + debt.
//!
//! **Changed numbers.** A state carries the numbers of the policy that wrote it. When a policy with
//! other numbers reads the state, the used units (rounded up, never reduced to the new burst) count
//! against the new burst. They drain at the old rate until a call is admitted, which writes the new
//! numbers. The bound across a change, also with several versions side by side, is the larger burst
//! plus the larger rate times t. The burst must be among the carried numbers: otherwise a reader
//! with a smaller burst would treat the state as one left ahead by a clock step, and reduce it.
//!
//! **Scheduled reservations** (see [`Rate::schedule`]). A scheduled reservation is
//! a charge as of its slot. Until the last slot has come, no call is decided as of an earlier time.
//! So slots and calls are in the order of their times, and the law holds for slots as it does for
//! calls, whichever policy reads the state.
//!
//! **Refunds.** Units drain in the order in which they were taken. So the units of a call are a
//! stretch of time that ends at the arrival that the call wrote, and the stretches of all calls are
//! disjoint. A refund removes a part of one stretch, and all later stretches move forward by it: the
//! arrival by what came back, and the stretches of other calls by what has come back since they were
//! written (see [`Mark`](crate::policy::mark::Mark)). The part of a stretch before now has drained. A
//! refund returns at most the part after now, and so only the rest of a unit that has drained in part.
//! It never returns units of other calls. The law holds of the admitted units less the refunded ones:
//! without the refunded calls the arrival would never have been later.
//!
//! The units that have come back since may belong to later calls. Their refund does not move the
//! stretch. The stretch began no earlier than its call. So it ends no earlier than the time of the call
//! plus the time of the call's units.
//!
//! A decision reports its arrival in whole milliseconds, rounded up, so the arrival itself may be a
//! millisecond earlier. From then on nothing comes back: the state may be that of later calls. Until
//! then the arrival is later than that, and at least the call's own time after the call. If a unit takes
//! longer than a millisecond, no unit of a later call fits into the rounding: so the call was the last one
//! if the arrival, less what has come back, is within it.

pub(crate) mod arrival;
pub(crate) mod gcra;
pub(crate) mod leaky_bucket;
pub(crate) mod scheduled;
pub(crate) mod token_bucket;

use std::sync::Arc;

use crate::algorithm::rate::arrival::{Arrival, RateNumbers, RateState};
use crate::algorithm::shared::levels::{self, LINGER, Levels};
use crate::algorithm::{
    Algorithm, ChargeRecord, InvalidNumber, KeyState, Outcome, Rewrites, checked_length,
    checked_units,
};
use crate::time::{MAX_SAFE, MAX_TIME, MICROS_PER_MILLI, Micros};

/// A rate with a burst.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    numbers: RateNumbers,
    /// The same numbers, shared by states.
    shared: Arc<RateNumbers>,
    /// The time of one unit: q whole microseconds and r parts.
    unit: Arrival,
    /// The time of `burst` units: from fully used to full.
    full: Arrival,
    levels: Levels,
    /// The main number of the policy: see [`Algorithm::limit`].
    limit: u64,
    /// The furthest that the arrival may be ahead when a call of one unit comes. Debt lets larger
    /// costs end later, but not begin later.
    max_lead: Arrival,
    /// How far ahead of the first call the arrival of a fresh key is, if the bucket does not begin
    /// full.
    start: Option<Arrival>,
}

/// The option names of the three numbers, for errors.
pub(super) struct RateOptions {
    pub(super) units: &'static str,
    pub(super) period: &'static str,
    pub(super) burst: &'static str,
}

impl Rate {
    /// `units` per `period`, and at most `burst` at once.
    ///
    /// # Errors
    /// [`InvalidNumber`], with the option name from `options`, unless the time to full is at most
    /// 2^52 µs and burst·r + N' (the carry of the largest cost) is below 2^53.
    pub(super) fn new(
        options: &RateOptions,
        units: u64,
        period: Micros,
        burst: u64,
    ) -> Result<Self, InvalidNumber> {
        Self::with_levels(options, units, period, Levels::full(burst))
    }

    /// `units` per `period` into a bucket of these levels.
    ///
    /// # Errors
    /// As for [`new`](Self::new), where the burst is the capacity + debt. A bucket that does not
    /// begin full must fill within a day less.
    pub(super) fn with_levels(
        options: &RateOptions,
        units: u64,
        period: Micros,
        levels: Levels,
    ) -> Result<Self, InvalidNumber> {
        checked_units(options.units, units)?;
        checked_length(options.period, period)?;
        checked_units(options.burst, levels.capacity)?;
        levels.check()?;
        let numbers = RateNumbers::in_lowest_terms(units, period, levels.max_used());
        let numbers = RateNumbers { lingers: levels.begins_low(), ..numbers };
        let unit = numbers.time_of(1);
        for (option, burst) in [(options.burst, levels.capacity), ("debt", levels.max_used())] {
            if numbers.time_of(burst) > Arrival::at(MAX_TIME) {
                let rule = "must refill from empty within 2^52 µs (142 years)";
                return Err(InvalidNumber { option, rule });
            }
            let largest_carry =
                u128::from(burst) * u128::from(unit.part) + u128::from(numbers.units);
            if largest_carry > u128::from(MAX_SAFE) {
                let rule = "is too large to count exactly at this rate: burst x (period mod limit) \
                            + limit, in lowest terms, must be below 2^53; choose a rounder rate or \
                            a smaller burst";
                return Err(InvalidNumber { option, rule });
            }
        }
        let full = numbers.time_of(levels.max_used());
        if levels.begins_low() && full > Arrival::at(MAX_TIME - LINGER) {
            let rule = levels::LINGERS_TOO_LONG;
            return Err(InvalidNumber { option: "initial", rule });
        }
        let max_lead = numbers.time_of(levels.capacity - 1);
        let start = levels.begins_low().then(|| numbers.time_of(levels.used_at_first()));
        let limit = levels.capacity;
        Ok(Self { shared: Arc::new(numbers), numbers, unit, full, levels, limit, max_lead, start })
    }

    /// The same rate with another main number.
    pub(super) fn with_limit(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// The numbers in lowest terms.
    #[must_use]
    pub fn numbers(&self) -> RateNumbers {
        self.numbers
    }

    /// The shared numbers, for states.
    #[must_use]
    pub fn shared_numbers(&self) -> Arc<RateNumbers> {
        Arc::clone(&self.shared)
    }

    /// The bucket's levels.
    #[must_use]
    pub fn levels(&self) -> Levels {
        self.levels
    }

    /// The time from fully used to full, in which `burst` units drain.
    #[must_use]
    pub fn full(&self) -> Arrival {
        self.full
    }

    /// The time in which `cost` units drain. `cost` is at most the burst, so nothing overflows.
    #[inline]
    #[must_use]
    pub fn time_of(&self, cost: u64) -> Arrival {
        if cost == 1 {
            return self.unit;
        }
        let parts = cost * self.unit.part;
        Arrival {
            micros: cost * self.unit.micros + parts / self.numbers.units,
            part: parts % self.numbers.units,
        }
    }

    /// The latest arrival that this policy can write at the time `now`.
    #[inline]
    fn horizon(&self, now: Micros) -> Arrival {
        self.full.after(now)
    }

    /// Makes the state fully used if a clock step left it beyond the horizon of the numbers that it
    /// was written with.
    // Always inlined, here and below: since operations call these functions too, a function call
    // would cost a take 10 ns.
    #[inline(always)]
    fn repair(&self, state: &mut RateState, now: Micros) {
        let horizon = if self.wrote(state) {
            self.horizon(now)
        } else if let Some(horizon) = state.numbers.horizon(now) {
            horizon
        } else {
            let numbers = state.numbers.with_scheduled_until(0);
            state.numbers = Arc::new(numbers);
            state.arrival = numbers.time_of(numbers.burst).after(now);
            return;
        };
        if state.arrival > horizon {
            state.arrival = horizon;
        }
    }

    /// Whether the state shares the numbers of this policy.
    #[inline(always)]
    pub(crate) fn shares_numbers(&self, state: &RateState) -> bool {
        Arc::ptr_eq(&state.numbers, &self.shared)
    }

    /// Whether the state has equal numbers, apart from slots ahead. Not inlined: nearly all states
    /// share the numbers.
    #[cold]
    fn has_numbers_of(&self, state: &RateState) -> bool {
        state.numbers.with_scheduled_until(0) == self.numbers
    }

    /// Whether the state has this policy's numbers and no slot ahead.
    #[inline]
    fn wrote(&self, state: &RateState) -> bool {
        Arc::ptr_eq(&state.numbers, &self.shared) || *state.numbers == self.numbers
    }

    /// Starts a bucket that begins low: a fresh key gets its initial level. A state of a policy
    /// that begins full is marked to be kept longer.
    fn begin(&self, start: Arrival, state: &mut RateState, now: Micros) {
        if state.reset_at() <= now {
            state.arrival = start.after(now);
            state.numbers = Arc::clone(&self.shared);
        } else if !state.numbers.lingers {
            state.numbers = Arc::new(RateNumbers { lingers: true, ..*state.numbers });
        }
    }

    /// The charged units, rounded up.
    #[inline]
    fn used(&self, state: &RateState, now: Micros) -> u64 {
        if self.start.is_some() && state.reset_at() <= now {
            return self.levels.used_at_first();
        }
        state.numbers.used(state.arrival, now)
    }

    /// The arrival from which a call of `cost` units is charged, by this policy's numbers; `None`
    /// if the charged units exclude the call. The caller still compares the sum with the burst.
    #[inline(always)]
    fn start_of_charge(&self, state: &RateState, now: Micros, cost: u64) -> Option<Arrival> {
        let base = Arrival::at(now);
        if !self.wrote(state) {
            if state.awaits_slot(now) {
                return None;
            }
            if !self.has_numbers_of(state) {
                let used = state.numbers.used(state.arrival, now);
                let fits = self.levels.admit(used, cost);
                return fits.then(|| self.time_of(used).after(now));
            }
        }
        let start = state.arrival.max(base);
        let is_too_far = self.levels.debt > 0 && start > self.max_lead.after(now);
        (!is_too_far).then_some(start)
    }

    /// The arrival after a call of `cost` units, at least 1, if it is admitted; otherwise its
    /// outcome.
    #[inline(always)]
    pub(super) fn arrival_after(
        &self,
        state: &RateState,
        now: Micros,
        cost: u64,
    ) -> Result<Arrival, Outcome> {
        if cost == 1 && Arc::ptr_eq(&state.numbers, &self.shared) {
            // A short form of the code below, for nearly all calls.
            let base = Arrival::at(now);
            let is_too_far = state.arrival > self.max_lead.after(now);
            let arrival = || state.arrival.max(base).plus(self.unit, self.numbers.units);
            return if is_too_far { Err(Outcome::Refused) } else { Ok(arrival()) };
        }
        if cost > self.numbers.burst {
            return Err(Outcome::Impossible);
        }
        let start = self.start_of_charge(state, now, cost).ok_or(Outcome::Refused)?;
        let arrival = start.plus(self.time_of(cost), self.numbers.units);
        if arrival > self.horizon(now) { Err(Outcome::Refused) } else { Ok(arrival) }
    }
}

/// An algorithm that is a rate with other option names.
pub trait RateBased {
    /// The rate that decides.
    fn rate(&self) -> &Rate;
}

impl RateBased for Rate {
    fn rate(&self) -> &Rate {
        self
    }
}

impl<T: RateBased> Algorithm for T {
    type State = RateState;

    #[inline]
    fn initial_state(&self) -> RateState {
        RateState { arrival: Arrival::at(0), numbers: Arc::clone(&self.rate().shared) }
    }

    #[inline]
    fn capacity(&self) -> u64 {
        self.rate().numbers.burst
    }

    #[inline]
    fn limit(&self) -> u64 {
        self.rate().limit
    }

    #[inline(always)]
    fn charge(&self, state: &mut RateState, now: Micros, cost: u64) -> Outcome {
        let rate = self.rate();
        rate.repair(state, now);
        if cost == 0 {
            return Outcome::Admitted;
        }
        if let Some(start) = rate.start {
            rate.begin(start, state, now);
        }
        let arrival = match rate.arrival_after(state, now, cost) {
            Ok(arrival) => arrival,
            Err(outcome) => return outcome,
        };
        state.arrival = arrival;
        if !Arc::ptr_eq(&state.numbers, &rate.shared) {
            state.numbers = Arc::clone(&rate.shared);
        }
        Outcome::Admitted
    }

    fn normalize(&self, state: &mut RateState, now: Micros) {
        let rate = self.rate();
        rate.repair(state, now);
        if let Some(start) = rate.start {
            rate.begin(start, state, now);
        }
    }

    fn outcome(&self, state: &RateState, now: Micros, cost: u64) -> Outcome {
        if cost == 0 {
            return Outcome::Admitted;
        }
        let arrival = self.rate().arrival_after(state, now, cost);
        arrival.map_or_else(|outcome| outcome, |_| Outcome::Admitted)
    }

    /// Moves the arrival back by the time of the units, in the numbers that it was written with. The
    /// call's units lie below the arrival that its decision reported, less the units that have come
    /// back since.
    fn refund(&self, state: &mut RateState, now: Micros, units: u64, taken: ChargeRecord) -> u64 {
        let numbers = &state.numbers;
        let lingering = if numbers.lingers { LINGER } else { 0 };
        let (moved, reported) = (taken.mark, taken.reset_at.saturating_sub(lingering));
        // The decision rounded its arrival up; it was at least the call's own time after the call.
        let earliest = reported.saturating_sub(MICROS_PER_MILLI);
        // Waiting callers have their slots already, so no call may come before them.
        if state.awaits_slot(now) || earliest < now {
            return 0;
        }
        let own = numbers.time_of(taken.cost.min(numbers.burst)).after(taken.at);
        let arrival = own.max(Arrival::at(earliest));
        // A unit of a later call would have moved the arrival by more than the rounding.
        let is_last = numbers.time_of(1).micros > MICROS_PER_MILLI
            && (earliest..=reported).contains(&(state.arrival.micros + moved));
        let by_order = Arrival { micros: arrival.micros.saturating_sub(moved), ..arrival };
        // However others have moved it, the call's stretch began no earlier than the call.
        let left = numbers.time_of((units + taken.kept).min(numbers.burst)).after(taken.at);
        let until = if is_last { state.arrival } else { by_order.max(left) };
        // A later arrival than that of the state is not of this state.
        if until <= Arrival::at(now) || until > state.arrival {
            return 0;
        }
        let rest = until.minus(Arrival::at(now), numbers.units);
        let given = units.min(numbers.used(until, now));
        // The last unit may have drained in part: then the rest of it comes back.
        let time = numbers.time_of(given).min(rest);
        state.arrival = state.arrival.minus(time, numbers.units);
        given
    }

    fn rewrites(&self, state: &RateState, _: Micros) -> Rewrites {
        let rate = self.rate();
        if rate.shares_numbers(state) || rate.has_numbers_of(state) {
            Rewrites::Never
        } else {
            Rewrites::IfAdmitted
        }
    }

    #[inline(always)]
    fn remaining(&self, state: &RateState, now: Micros) -> u64 {
        let rate = self.rate();
        if state.awaits_slot(now) { 0 } else { rate.levels.remaining(rate.used(state, now)) }
    }

    #[inline]
    fn retry_at(&self, state: &RateState, now: Micros, cost: u64) -> Micros {
        // The first time at which few enough units are still charged. The state may have
        // another policy's numbers, and so another burst and another largest safe cost.
        let rate = self.rate();
        let lead = match (rate.wrote(state), cost) {
            (true, 1) => rate.max_lead,
            (true, _) => rate.time_of(rate.levels.room_for(cost)),
            (false, _) => state.numbers.time_of(rate.levels.room_for(cost)),
        };
        let short = u64::from(state.arrival.part > lead.part);
        let fits_at = (state.arrival.micros + short).saturating_sub(lead.micros);
        fits_at.max(state.numbers.scheduled_until).max(now)
    }
}

#[cfg(test)]
mod tests;
