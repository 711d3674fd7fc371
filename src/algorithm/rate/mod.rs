//! The core that the rate algorithms share: a theoretical arrival time, counted exactly.
//!
//! A rate of N units per P microseconds is reduced to N' units per P' microseconds. One unit takes
//! P'/N' µs, which need not be a whole number, so a time is kept as whole microseconds and a
//! part in N'-ths of a microsecond ([`Arrival`]). With P' = q·N' + r, a cost of c units moves the
//! arrival by c·q microseconds and c·r parts: an integer addition with a carry, without rounding.
//! An interval rounded down to whole microseconds would admit 0.1 % too much at 1001 per second.
//!
//! **The law:** in any window of length t at most burst + t·N'/P' units are admitted. An admitted
//! call moves the arrival by its cost from max(arrival, now), and only if it then lies at most
//! burst·P'/N' ahead of now; so n units admitted between s and s + t have moved it from at least s
//! to at most s + t + burst·P'/N', which is room for t·N'/P' + burst units. A lone caller whose
//! key is unused gets exactly burst at once, and a unit each P'/N' µs from then on.
//!
//! **Levels.** For a bucket that may be overdrawn (see [`Levels`]) burst is its capacity + debt,
//! and there is a gate before it: at most capacity − 1 units may be used when a call comes. A bucket
//! that begins with less than its capacity has the rest used at first sight. Both admit less than
//! the law above with burst = capacity + debt.
//!
//! **Changed numbers.** A state carries the numbers it was written with. Read by a policy with
//! other numbers, its used units (rounded up, never cut down to the new burst) count against the
//! new burst; they drain at the old rate until a call is admitted, which writes them anew. The
//! bound across a change, several versions side by side included, is the larger burst plus the
//! larger rate times t. The burst must be part of what is carried: a reader with a smaller burst
//! would otherwise take the state for one that a clock step left behind, and cut it down.
//!
//! **Booking ahead** (see [`Bookable`](super::Bookable)). A booking is a charge as of its slot, and
//! while a slot is still to come no call is decided as of an earlier time: so slots and calls are in
//! the order of their times, and the law holds of slots as it does of calls, whoever reads the state.
//!
//! **Refunds.** Units drain in the order in which they were taken, so those of a call have drained
//! when the arrival that it left has come. Before that at most those come back that have not drained,
//! and at most what is on the books: the arrival moves back by their time, but by no more than is
//! left of the call's, and not to before now. So of what is admitted in a window less what came back
//! in it the law holds as it is. A decision tells its arrival in whole milliseconds, rounded up:
//! so much too late a unit may still come back.

pub(crate) mod arrival;
pub(crate) mod gcra;
pub(crate) mod leaky_bucket;
pub(crate) mod scheduled;
pub(crate) mod token_bucket;

use std::sync::Arc;

use crate::algorithm::rate::arrival::{Arrival, RateNumbers, RateState};
use crate::algorithm::shared::levels::{self, LINGER, Levels};
use crate::algorithm::{
    Algorithm, ChargeRecord, InvalidNumber, Outcome, State, checked_length, checked_units,
};
use crate::time::{MAX_SAFE, MAX_TIME, Micros};

/// A rate with a burst, ready to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    numbers: RateNumbers,
    /// The same numbers, for the states to share.
    shared: Arc<RateNumbers>,
    /// What one unit adds: q whole microseconds and r parts.
    unit: Arrival,
    /// What `burst` units add: the time from fully used to full.
    full: Arrival,
    levels: Levels,
    /// How far ahead the arrival may lie when a call of one unit comes. Debt allows greater costs to go
    /// further, but not to begin later.
    gate: Arrival,
    /// How far ahead the arrival lies at first sight, if the bucket does not begin full.
    start: Option<Arrival>,
}

/// The names that an algorithm's users know the three numbers by, for errors.
pub(super) struct RateOptions {
    pub(super) units: &'static str,
    pub(super) period: &'static str,
    pub(super) burst: &'static str,
}

impl Rate {
    /// `units` per `period`, and at most `burst` at once.
    ///
    /// # Errors
    /// [`InvalidNumber`], naming the option by `options`, unless the time to full is at most 2^52
    /// µs and burst·r + N' stays below 2^53 (the carry of the largest cost).
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
    /// As for [`new`](Self::new), where the burst is the capacity + debt; a bucket that does not
    /// begin full must fill a day sooner.
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
        let numbers = RateNumbers::in_lowest_terms(units, period, levels.most());
        let numbers = RateNumbers { lingers: levels.begins_low(), ..numbers };
        let unit = numbers.time_of(1);
        for (option, burst) in [(options.burst, levels.capacity), ("debt", levels.most())] {
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
        let full = numbers.time_of(levels.most());
        if levels.begins_low() && full > Arrival::at(MAX_TIME - LINGER) {
            let rule = levels::LINGERS_TOO_LONG;
            return Err(InvalidNumber { option: "initial", rule });
        }
        let gate = numbers.time_of(levels.capacity - 1);
        let start = levels.begins_low().then(|| numbers.time_of(levels.used_at_first()));
        Ok(Self { shared: Arc::new(numbers), numbers, unit, full, levels, gate, start })
    }

    /// The numbers in lowest terms.
    #[must_use]
    pub fn numbers(&self) -> RateNumbers {
        self.numbers
    }

    /// The numbers, as states share them.
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

    /// The time in which `cost` units drain; `cost` is at most the burst, so nothing overflows.
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

    /// The furthest that this policy can put an arrival at the time `now`.
    #[inline]
    fn horizon(&self, now: Micros) -> Arrival {
        self.full.after(now)
    }

    /// Re-bases the state as fully used if a clock step left it beyond the horizon of the numbers
    /// that it was written with.
    // Always, here and below: operations gave these functions more than one caller, and calling them costs
    // a take 10 ns.
    #[inline(always)]
    fn repair(&self, state: &mut RateState, now: Micros) {
        let horizon = if self.wrote(state) {
            self.horizon(now)
        } else if let Some(horizon) = state.numbers.horizon(now) {
            horizon
        } else {
            let numbers = state.numbers.with_slot(0);
            state.numbers = Arc::new(numbers);
            state.arrival = numbers.time_of(numbers.burst).after(now);
            return;
        };
        if state.arrival > horizon {
            state.arrival = horizon;
        }
    }

    /// Whether the state's numbers are this policy's, and no slot is booked ahead.
    #[inline]
    fn wrote(&self, state: &RateState) -> bool {
        Arc::ptr_eq(&state.numbers, &self.shared) || *state.numbers == self.numbers
    }

    /// Sees to it that the key is known for as long as it must be when the bucket begins low: if it
    /// was never seen, it begins; if the state is of a policy that begins full, it is kept longer.
    fn begin(&self, start: Arrival, state: &mut RateState, now: Micros) {
        if state.reset_at() <= now {
            state.arrival = start.after(now);
            state.numbers = Arc::clone(&self.shared);
        } else if !state.numbers.lingers {
            state.numbers = Arc::new(RateNumbers { lingers: true, ..*state.numbers });
        }
    }

    /// Units on the books, rounded up.
    #[inline]
    fn used(&self, state: &RateState, now: Micros) -> u64 {
        if self.start.is_some() && state.reset_at() <= now {
            return self.levels.used_at_first();
        }
        state.numbers.used(state.arrival, now)
    }

    /// Where the arrival stands for this policy's numbers, or `None` if the units on the books
    /// leave no room for `cost`. What they leave of the burst is still to be seen.
    #[inline(always)]
    fn standing(&self, state: &RateState, now: Micros, cost: u64) -> Option<Arrival> {
        let base = Arrival::at(now);
        if !self.wrote(state) {
            if state.awaits_slot(now) {
                return None;
            }
            if state.numbers.with_slot(0) != self.numbers {
                let used = state.numbers.used(state.arrival, now);
                let fits = self.levels.admit(used, cost);
                return fits.then(|| self.time_of(used).after(now));
            }
        }
        let standing = state.arrival.max(base);
        let is_shut = self.levels.debt > 0 && standing > self.gate.after(now);
        (!is_shut).then_some(standing)
    }

    /// The arrival that a call of `cost` units, at least 1, leaves if it is admitted; otherwise what
    /// becomes of it.
    #[inline(always)]
    pub(super) fn arrival_after(
        &self,
        state: &RateState,
        now: Micros,
        cost: u64,
    ) -> Result<Arrival, Outcome> {
        if cost == 1 && Arc::ptr_eq(&state.numbers, &self.shared) {
            // What follows, for what nearly all calls are.
            let base = Arrival::at(now);
            let is_shut = state.arrival > self.gate.after(now);
            let arrival = || state.arrival.max(base).plus(self.unit, self.numbers.units);
            return if is_shut { Err(Outcome::Refused) } else { Ok(arrival()) };
        }
        if cost > self.numbers.burst {
            return Err(Outcome::Impossible);
        }
        let standing = self.standing(state, now, cost).ok_or(Outcome::Refused)?;
        let arrival = standing.plus(self.time_of(cost), self.numbers.units);
        if arrival > self.horizon(now) { Err(Outcome::Refused) } else { Ok(arrival) }
    }
}

/// An algorithm that is a rate under another name.
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
    fn limit(&self) -> u64 {
        self.rate().numbers.burst
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

    /// The arrival moves back by the time of the units, in the numbers that it was written with, and by
    /// at most the time until those of the call have drained.
    fn refund(&self, state: &mut RateState, now: Micros, units: u64, taken: ChargeRecord) -> u64 {
        let numbers = &state.numbers;
        let lingering = if self.rate().numbers.lingers { LINGER } else { 0 };
        let drained_at = Arrival::at(taken.reset_at.saturating_sub(lingering));
        // Those who wait have their slots already, which nothing may come between.
        if state.awaits_slot(now) || drained_at <= Arrival::at(now) {
            return 0;
        }
        let left = numbers.used(state.arrival, now).min(numbers.used(drained_at, now));
        let given = units.min(left);
        if given > 0 {
            // The last of them may have drained in part.
            let time = numbers.time_of(given).min(Arrival::at(drained_at.micros - now));
            state.arrival = if state.arrival > time.after(now) {
                state.arrival.minus(time, numbers.units)
            } else {
                Arrival::at(now)
            };
        }
        given
    }

    #[inline(always)]
    fn remaining(&self, state: &RateState, now: Micros) -> u64 {
        let rate = self.rate();
        if state.awaits_slot(now) { 0 } else { rate.levels.remaining(rate.used(state, now)) }
    }

    #[inline]
    fn retry_at(&self, state: &RateState, now: Micros, cost: u64) -> Micros {
        // The first time at which at most `room` units are still on the books. The state's numbers
        // may be another policy's, whose burst, and so the largest safe cost, is another.
        let rate = self.rate();
        let lead = match (rate.wrote(state), cost) {
            (true, 1) => rate.gate,
            (true, _) => rate.time_of(rate.levels.room_for(cost)),
            (false, _) => state.numbers.time_of(rate.levels.room_for(cost)),
        };
        let short = u64::from(state.arrival.part > lead.part);
        let fits_at = (state.arrival.micros + short).saturating_sub(lead.micros);
        fits_at.max(state.numbers.booked_until).max(now)
    }
}

#[cfg(test)]
mod tests;
