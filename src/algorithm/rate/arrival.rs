//! Times that are not a whole number of microseconds, counted exactly, and the state of a rate.

use std::sync::Arc;

use crate::algorithm::KeyState;
use crate::algorithm::shared::levels;
use crate::time::{MICROS_PER_MILLI, Micros};

/// The furthest that a slot may lie ahead of now: an hour.
pub const MAX_WAIT: Micros = 60 * 60 * 1_000 * MICROS_PER_MILLI;

/// A time in whole microseconds and a part, in N'-ths of a microsecond: part < N'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// Whole microseconds.
    pub micros: Micros,
    /// N'-ths of a microsecond.
    pub part: u64,
}

impl Arrival {
    pub(crate) const fn at(now: Micros) -> Self {
        Self { micros: now, part: 0 }
    }

    /// This length of time after a whole number of microseconds: there are no parts to add.
    pub(crate) const fn after(self, now: Micros) -> Self {
        Self { micros: now + self.micros, part: self.part }
    }

    /// The sum, where `units` is N'. Both parts are below N' < 2^53, so nothing overflows.
    pub(crate) fn plus(self, other: Self, units: u64) -> Self {
        let sum = Self { micros: self.micros + other.micros, part: self.part + other.part };
        if sum.part < units {
            return sum;
        }
        Self { micros: sum.micros + 1, part: sum.part - units }
    }

    /// The microseconds, rounded up, by which it is later than another.
    pub(crate) fn lead_over(self, other: Self, numbers: &RateNumbers) -> Micros {
        let lead = self.minus(other, numbers.units);
        lead.micros + u64::from(lead.part > 0)
    }

    /// The difference, where `units` is N'. `other` is at most `self`.
    pub(crate) fn minus(self, other: Self, units: u64) -> Self {
        if self.part >= other.part {
            return Self { micros: self.micros - other.micros, part: self.part - other.part };
        }
        Self { micros: self.micros - other.micros - 1, part: self.part + units - other.part }
    }
}

/// The numbers of a rate in lowest terms: `units` (N') in `period` (P') µs, and `burst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RateNumbers {
    /// P': microseconds in which `units` units drain.
    pub period: Micros,
    /// N': units that drain in `period`.
    pub units: u64,
    /// The most units that may be charged.
    pub burst: u64,
    /// Whether the key must be kept for a day after it is full, because it began with less.
    pub lingers: bool,
    /// The latest slot of a scheduled reservation, or 0: no call is decided as of an earlier time.
    pub scheduled_until: Micros,
}

impl RateNumbers {
    /// `units` per `period`, reduced, and `burst`.
    pub(crate) fn in_lowest_terms(units: u64, period: Micros, burst: u64) -> Self {
        let divisor = greatest_common_divisor(units, period);
        Self {
            period: period / divisor,
            units: units / divisor,
            burst,
            lingers: false,
            scheduled_until: 0,
        }
    }

    /// The latest arrival that a policy of these numbers can have written at the time `now`. `None`
    /// if a slot is further ahead than the longest wait: then a clock has stepped back.
    pub(crate) fn horizon(self, now: Micros) -> Option<Arrival> {
        let as_of = self.scheduled_until.max(now);
        let furthest = || self.time_of(self.burst).after(as_of);
        (as_of - now <= MAX_WAIT).then(furthest)
    }

    /// The same numbers, with this latest slot.
    pub(crate) fn with_scheduled_until(self, scheduled_until: Micros) -> Self {
        Self { scheduled_until, ..self }
    }

    /// The time in which `units` units drain.
    pub(crate) fn time_of(self, units: u64) -> Arrival {
        let total = u128::from(units) * u128::from(self.period);
        Arrival {
            micros: saturate(total / u128::from(self.units)),
            part: saturate(total % u128::from(self.units)),
        }
    }

    /// The units that have not drained at `now`, rounded up.
    #[inline]
    pub(crate) fn used(self, arrival: Arrival, now: Micros) -> u64 {
        if arrival <= Arrival::at(now) {
            return 0;
        }
        let (ahead, units) = (arrival.micros - now, self.units);
        match ahead.checked_mul(units).and_then(|parts| parts.checked_add(arrival.part)) {
            Some(parts) => parts.div_ceil(self.period),
            None => {
                let parts = u128::from(ahead) * u128::from(units) + u128::from(arrival.part);
                saturate(parts.div_ceil(u128::from(self.period)))
            }
        }
    }
}

fn saturate(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The state of a key under a rate algorithm: its theoretical arrival time, and the numbers that
/// the parts are counted in.
///
/// The numbers are shared: a million states of one policy store them once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateState {
    /// When the charged units will have drained.
    pub arrival: Arrival,
    /// The numbers of the policy that wrote this.
    pub numbers: Arc<RateNumbers>,
}

impl RateState {
    /// The charged units at a time, rounded up. If a clock step left the state beyond its horizon,
    /// they are the burst.
    #[must_use]
    pub fn used(&self, now: Micros) -> u64 {
        match self.numbers.horizon(now) {
            Some(horizon) if self.arrival <= horizon => self.numbers.used(self.arrival, now),
            _ => self.numbers.burst,
        }
    }

    /// Whether a scheduled slot is still to come: no call overtakes a waiting caller.
    #[inline]
    pub(crate) fn awaits_slot(&self, now: Micros) -> bool {
        self.numbers.scheduled_until > now
    }
}

impl KeyState for RateState {
    fn reset_at(&self) -> Micros {
        let full_at = self.arrival.micros + u64::from(self.arrival.part > 0);
        levels::reset_at(full_at, self.numbers.lingers)
    }

    fn drains(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rate of 999,999 units in 30 days.
    const SLOW: (u64, Micros) = (999_999, 2_592_000_000_000);

    #[test]
    fn numbers_are_kept_in_lowest_terms() {
        let numbers = RateNumbers::in_lowest_terms(SLOW.0, SLOW.1, 1);
        assert_eq!(
            numbers,
            RateNumbers {
                period: 96_000_000_000,
                units: 37_037,
                burst: 1,
                lingers: false,
                scheduled_until: 0
            }
        );
    }

    #[test]
    fn the_used_units_are_exact_where_their_parts_pass_sixty_four_bits() {
        let burst = 1_700_000_000;
        let numbers = RateNumbers::in_lowest_terms(SLOW.0, SLOW.1, burst);
        let full = numbers.time_of(burst);
        assert!(u128::from(full.micros) * 37_037 > u128::from(u64::MAX));
        assert_eq!(numbers.used(full, 0), burst);
        let unit = numbers.time_of(1);
        assert_eq!(numbers.used(full, unit.micros), burst, "a part of a unit is left");
        assert_eq!(numbers.used(full, unit.micros + 1), burst - 1);
        let one_less = numbers.time_of(burst - 1);
        assert_eq!(numbers.used(one_less, 0), burst - 1);
        let a_part_more = Arrival { part: one_less.part + 1, ..one_less };
        assert_eq!(numbers.used(a_part_more, 0), burst);
    }

    #[test]
    fn parts_carry() {
        let almost = Arrival { micros: 1, part: 6 };
        assert_eq!(almost.plus(Arrival { micros: 2, part: 1 }, 7), Arrival { micros: 4, part: 0 });
        assert_eq!(almost.plus(Arrival { micros: 2, part: 0 }, 7), Arrival { micros: 3, part: 6 });
    }

    #[test]
    fn parts_are_borrowed() {
        let (sum, whole) = (Arrival { micros: 4, part: 0 }, Arrival { micros: 2, part: 0 });
        assert_eq!(sum.minus(Arrival { micros: 2, part: 1 }, 7), Arrival { micros: 1, part: 6 });
        assert_eq!(sum.minus(whole, 7), whole);
    }
}
