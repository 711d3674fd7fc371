//! The generic cell rate algorithm (GCRA).
//!
//! **Law:** at most burst + t·limit/period units in any window of length t.
//!
//! Source: ITU-T I.371, as in `CL.THROTTLE` of redis-cell, where the whole state of a key is the
//! theoretical arrival time of its next cell. Differences: the burst is the number of units that a
//! lone caller gets at once (a burst of 10 admits 10), and the emission interval is never rounded.

use super::{Rate, RateBased, RateOptions};
use crate::algorithm::InvalidNumber;
use crate::algorithm::rate::arrival::RateNumbers;
use crate::time::{MAX_SAFE, Micros};

const OPTIONS: RateOptions = RateOptions { units: "limit", period: "period", burst: "burst" };

/// `limit` units per `period`, evenly, and up to `burst` at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gcra {
    rate: Rate,
    period: Micros,
}

impl Gcra {
    /// `limit` units in each `period`, and up to `burst` of them at once.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a number that is 0 or too large to count exactly.
    pub fn new(limit: u64, period: Micros, burst: u64) -> Result<Self, InvalidNumber> {
        let rate = Rate::new(&OPTIONS, limit, period, burst)?.with_limit(limit);
        Ok(Self { rate, period })
    }

    /// The units in this policy's period at the rate of an override, rounded down. The period of an
    /// override is unknown: a state has a rate in lowest terms.
    pub(crate) fn limit_at(&self, rate: &Rate) -> u64 {
        let RateNumbers { units, period, .. } = rate.numbers();
        multiplied_and_divided(units, self.period, period).min(MAX_SAFE)
    }
}

/// a·b/c, rounded down, of numbers below 2^53; at most `u64::MAX`. The product may need more than 64
/// bits. A division of 128 bits would make the WebAssembly module 1 % larger.
fn multiplied_and_divided(a: u64, b: u64, c: u64) -> u64 {
    let (mut quotient, mut rest) = (0_u64, 0);
    for bit in (0..53).rev() {
        rest = 2 * rest + if a >> bit & 1 > 0 { b } else { 0 };
        quotient = quotient.saturating_mul(2).saturating_add(rest / c);
        rest %= c;
    }
    quotient
}

impl RateBased for Gcra {
    #[inline]
    fn rate(&self) -> &Rate {
        &self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Algorithm as _, Outcome};

    #[test]
    fn the_burst_is_exact_and_then_a_unit_each_interval() {
        let gcra = Gcra::new(10, 1_000_000, 3).unwrap();
        let mut state = gcra.initial_state();
        let mut admitted = Vec::new();
        for now in (0..=300_000).step_by(50_000) {
            for _ in 0..5 {
                if gcra.charge(&mut state, now, 1) == Outcome::Admitted {
                    admitted.push(now);
                }
            }
        }
        assert_eq!(admitted, [0, 0, 0, 100_000, 200_000, 300_000]);
    }

    #[test]
    fn products_of_53_bits_are_divided_exactly() {
        const MAX: u64 = MAX_SAFE;
        for (a, b, c) in [(0, 7, 3), (7, 3, 2), (MAX, MAX, MAX), (MAX, 3, 7), (5, MAX, MAX - 1)] {
            let exact = u128::from(a) * u128::from(b) / u128::from(c);
            assert_eq!(u128::from(multiplied_and_divided(a, b, c)), exact, "{a} {b} {c}");
        }
        assert_eq!(multiplied_and_divided(MAX, MAX, 1), u64::MAX);
    }

    #[test]
    fn the_limit_at_another_rate_is_that_of_the_own_period() {
        let own = Gcra::new(100, 60_000_000, 20).unwrap();
        assert_eq!(own.limit(), 100);
        let at = |limit, period| own.limit_at(Gcra::new(limit, period, 1).unwrap().rate());
        assert_eq!([at(250, 60_000_000), at(1, 1_000_000), at(7, 480_000_000)], [250, 60, 0]);
        assert_eq!(at(1_000_000_000, 1), MAX_SAFE);
    }

    #[test]
    fn errors_speak_of_limit_period_and_burst() {
        assert_eq!(Gcra::new(0, 1, 1).unwrap_err().option, "limit");
        assert_eq!(Gcra::new(1, 0, 1).unwrap_err().option, "period");
        assert_eq!(Gcra::new(1, 1, 0).unwrap_err().option, "burst");
    }
}
