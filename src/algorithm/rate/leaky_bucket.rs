//! The leaky bucket as a meter, also called a funnel.
//!
//! **Law:** at most capacity + t·units/every units in any window of length t.
//!
//! Each call adds its cost if it fits, and the bucket leaks evenly. The level is not stored: a
//! bucket that will be empty at the time T contains (T − now)·units/every, so the state is T, the
//! theoretical arrival time of GCRA.
//!
//! Source: the leaky bucket of the Go + Redis limiter, and the funnel with a quota for each call
//! (here: its cost). Differences: the bucket does not leak by whole seconds or rounded amounts, a
//! cost is added before it is compared, and the leak and the cost are decided in one step.

use super::{Rate, RateBased, RateOptions};
use crate::algorithm::InvalidNumber;
use crate::time::Micros;

const OPTIONS: RateOptions =
    RateOptions { units: "leak.units", period: "leak.every", burst: "capacity" };

/// A bucket that holds `capacity` units and leaks `units` per `every`, continuously.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeakyBucket(Rate);

impl LeakyBucket {
    /// A bucket that holds `capacity` units, empty at first, and leaks `units` evenly in each
    /// `every`.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a number that is 0 or too large to count exactly.
    pub fn new(capacity: u64, units: u64, every: Micros) -> Result<Self, InvalidNumber> {
        Rate::new(&OPTIONS, units, every, capacity).map(Self)
    }
}

impl RateBased for LeakyBucket {
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
    fn what_leaks_makes_room() {
        let bucket = LeakyBucket::new(3, 2, 1_000_000).unwrap();
        let mut state = bucket.initial_state();
        assert_eq!(bucket.charge(&mut state, 0, 3), Outcome::Admitted);
        assert_eq!(bucket.charge(&mut state, 499_999, 1), Outcome::Refused);
        assert_eq!(bucket.retry_at(&state, 499_999, 1), 500_000);
        assert_eq!(bucket.charge(&mut state, 500_000, 1), Outcome::Admitted);
        assert_eq!(bucket.remaining(&state, 1_500_000), 2);
    }

    /// The funnel: calls of different weight share one capacity.
    #[test]
    fn a_funnel_takes_weights_while_they_fit() {
        let funnel = LeakyBucket::new(15, 1, 2_000_000).unwrap();
        let mut state = funnel.initial_state();
        let poured = [7, 7, 2, 1].map(|quota| funnel.charge(&mut state, 0, quota));
        let [fits, too_much] = [Outcome::Admitted, Outcome::Refused];
        assert_eq!(poured, [fits, fits, too_much, fits]);
        assert_eq!(funnel.retry_at(&state, 0, 7), 14_000_000);
    }

    #[test]
    fn errors_speak_of_capacity_and_leak() {
        assert_eq!(LeakyBucket::new(0, 1, 1).unwrap_err().option, "capacity");
        assert_eq!(LeakyBucket::new(1, 0, 1).unwrap_err().option, "leak.units");
        assert_eq!(LeakyBucket::new(1, 1, 0).unwrap_err().option, "leak.every");
    }
}
