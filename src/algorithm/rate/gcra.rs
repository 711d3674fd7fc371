//! The generic cell rate algorithm (GCRA).
//!
//! **Law:** at most burst + t·limit/period units in any window of length t.
//!
//! Source: ITU-T I.371, as in `CL.THROTTLE` of redis-cell, where the whole state of a key is the
//! theoretical arrival time of its next cell. Differences: the burst is the number of units that a
//! lone caller gets at once (a burst of 10 admits 10), and the emission interval is never rounded.

use super::{Rate, RateBased, RateOptions};
use crate::algorithm::InvalidNumber;
use crate::time::Micros;

const OPTIONS: RateOptions = RateOptions { units: "limit", period: "period", burst: "burst" };

/// `limit` units per `period`, evenly, and up to `burst` at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gcra(Rate);

impl Gcra {
    /// `limit` units in each `period`, and up to `burst` of them at once.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a number that is 0 or too large to count exactly.
    pub fn new(limit: u64, period: Micros, burst: u64) -> Result<Self, InvalidNumber> {
        Ok(Self(Rate::new(&OPTIONS, limit, period, burst)?.with_limit(limit)))
    }
}

impl RateBased for Gcra {
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
    fn errors_speak_of_limit_period_and_burst() {
        assert_eq!(Gcra::new(0, 1, 1).unwrap_err().option, "limit");
        assert_eq!(Gcra::new(1, 0, 1).unwrap_err().option, "period");
        assert_eq!(Gcra::new(1, 1, 0).unwrap_err().option, "burst");
    }
}
