//! The algorithms: pure functions over integers.
//!
//! Each algorithm is a file here and, over Redis, a Lua twin of the same basename in `lua/`. A
//! file's head states the algorithm's *admission law*: the most it admits in any window of the
//! deciding clock. Nothing here reads a clock, holds a lock or knows where a state is kept.
//!
//! The twin of an algorithm is its [`Algorithm::charge`] alone. What a caller is told
//! ([`Algorithm::remaining`], [`Algorithm::retry_at`]) is computed from the state that `charge`
//! leaves, in Rust only, because it needs divisions that Lua's doubles cannot do exactly.

mod arrival;
mod booking;
mod buckets;
mod calendar_window;
mod entry;
mod fixed_window;
mod gcra;
mod leaky_bucket;
mod levels;
mod log;
mod rate;
mod sliding_counter;
mod sliding_log;
mod sliding_window;
mod token_bucket;
mod token_bucket_interval;

pub use arrival::{Arrival, MAX_WAIT, RateNumbers, RateState};
pub use booking::{BOOKING_LENGTH, Bookable, Booking};
pub use buckets::SlidingState;
pub use calendar_window::CalendarWindow;
pub use fixed_window::{FixedWindow, WindowState};
pub use gcra::Gcra;
pub use leaky_bucket::LeakyBucket;
pub use levels::{LINGER, Levels};
pub use log::LogState;
pub use rate::{Rate, RateBased};
pub use sliding_counter::{CounterState, SlidingCounter};
pub use sliding_log::{DROP_EVERY, LogLimit, MOST_DROPPED, MOST_LIMITS, MOST_LOGGED, SlidingLog};
pub use sliding_window::{BucketLayout, MAX_BUCKETS, SlidingWindow};
pub use token_bucket::TokenBucket;
pub use token_bucket_interval::{IntervalBucket, IntervalNumbers, IntervalState};

use std::fmt;

use crate::short_list::ShortList;
use crate::time::{MAX_SAFE, MAX_TIME, Micros};

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The cost fits and is on the books.
    Admitted,
    /// The cost does not fit now; nothing was charged.
    Refused,
    /// The cost is above what the policy can ever admit at once; nothing was charged.
    Impossible,
}

/// What is remembered of one key.
pub trait State: Clone + PartialEq + fmt::Debug {
    /// From this time on the key is as if never used: dropping the state changes no decision.
    fn settled_at(&self) -> Micros;

    /// Whether a settled key has nothing left that a rolling window could still hold.
    ///
    /// So it is with rates: what they count has drained. A window that has ended has not: its
    /// units lie within a window's length of those that follow.
    fn drains(&self) -> bool;
}

/// How one of a policy's limits stands after a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// The largest cost that a call can ever have.
    pub limit: u64,
    /// The largest cost that would be admitted now.
    pub remaining: u64,
    /// The first time at which the cost would be admitted, if this limit refused it; otherwise any
    /// time up to now.
    pub retry_at: Micros,
    /// From this time on the key is as if never used.
    pub settled_at: Micros,
}

/// How each of a policy's limits stands: nearly all policies are one limit.
pub type Standings = ShortList<Standing, 1>;

/// When units were taken that are to be given back, by the decision on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The time of the decision.
    pub at: Micros,
    /// When the key was to be as if never used, by the policy's numbers in that decision: `at` and its
    /// `reset_after_ms`.
    pub reset_at: Micros,
}

/// What would become of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// What would become of it.
    pub outcome: Outcome,
    /// Whether nothing would be left.
    pub takes_last: bool,
    /// How each limit stands without it; when it would be admitted, if it would be refused.
    pub standings: Standings,
}

impl Look {
    /// A look by limits each of which admits what it has remaining, and then has nothing.
    #[must_use]
    pub fn at(standings: Standings, cost: u64, outcome: Outcome) -> Self {
        let least = standings.iter().map(|standing| standing.remaining).min();
        let takes_last = outcome == Outcome::Admitted && cost > 0 && least == Some(cost);
        Self { outcome, takes_last, standings }
    }
}

/// One rate limiting algorithm with its numbers.
///
/// Its functions are pure: what they answer and leave behind depends on their arguments alone.
/// Laws that every implementation keeps, and that `engine-tests/` proves:
///
/// - **Admission.** The bound in the head of its file, under any order of calls.
/// - **Generosity.** A lone caller gets exactly what is promised.
/// - **No charge for refusal.** Unless the outcome is [`Outcome::Admitted`], the state is left as
///   it was, but for the repair below, and for what a bucket that begins with less than its capacity
///   records at first sight (see [`Levels`]).
/// - **Honesty.** [`remaining`](Self::remaining) is the largest cost that would be admitted now;
///   [`retry_at`](Self::retry_at) is the first microsecond at which the refused cost would be.
/// - **Repair.** After a step back of the clock a state may lie further ahead than the algorithm
///   can have put it (its horizon: the time to full, or the window). It is then moved to within the
///   horizon, and this is kept even when the call is refused: so a clock that jumps far forward and
///   back locks a key for no longer than the horizon. Windows keep their counts; what drains, and a
///   log, is fully used at `now`.
pub trait Algorithm {
    /// What is remembered of one key.
    type State: State;

    /// The state of a key that was never used.
    fn unused(&self) -> Self::State;

    /// The largest cost that a single call can ever have.
    fn limit(&self) -> u64;

    /// Tries to put `cost` units on the books at the time `now`.
    ///
    /// A cost of 0 asks for nothing: it is admitted, and only repairs the state.
    fn charge(&self, state: &mut Self::State, now: Micros, cost: u64) -> Outcome;

    /// Does what every call with a cost does, whatever becomes of it: repairs the state, and records the
    /// first sight of a bucket that begins low. Nothing is charged.
    fn meet(&self, state: &mut Self::State, now: Micros) {
        self.charge(state, now, 0);
    }

    /// What would become of a cost, by a state that has been [met](Self::meet) at `now`: to meet it and,
    /// if this admits the cost, to charge it, is what [`charge`](Self::charge) does.
    fn outcome(&self, state: &Self::State, now: Micros, cost: u64) -> Outcome {
        self.charge(&mut state.clone(), now, cost)
    }

    /// Gives back up to so many units of a call that was [taken](Taken) earlier, and tells how many were
    /// still on the books and so came back: if none, nothing is changed.
    ///
    /// The state has been [met](Self::meet) at `now`. Nothing ends above full. The law then holds of what
    /// is admitted less what came back in the same window.
    fn refund(&self, state: &mut Self::State, now: Micros, units: u64, taken: Taken) -> u64;

    /// The largest cost that would be admitted at the time `now`.
    fn remaining(&self, state: &Self::State, now: Micros) -> u64;

    /// The first time at which `cost` would be admitted if nobody else came.
    ///
    /// Asked only after a call was [`Outcome::Refused`] at `now`, with the state that it left.
    fn retry_at(&self, state: &Self::State, now: Micros, cost: u64) -> Micros;

    /// From this time on the key is as if never used by this policy, and it is so by no other's
    /// numbers later than [`State::settled_at`].
    #[inline]
    fn settled_at(&self, state: &Self::State) -> Micros {
        state.settled_at()
    }

    /// How many limits decisions tell of by name; 0 for a policy that is one limit.
    #[inline]
    fn named_limits(&self) -> usize {
        0
    }

    /// How each limit stands after a call, by the state that it left, in the order in which they
    /// were declared.
    fn standings(
        &self,
        state: &Self::State,
        now: Micros,
        cost: u64,
        outcome: Outcome,
    ) -> Standings {
        stand_alone(self, state, now, cost, outcome)
    }

    /// What would become of a call, and how each limit stands without it: nothing is charged.
    ///
    /// A state that a clock step left behind is seen repaired.
    fn look(&self, state: &Self::State, now: Micros, cost: u64) -> Look {
        look_at_copy(self, state, now, cost)
    }
}

/// [`Algorithm::standings`] of a policy that is one limit.
pub(crate) fn stand_alone<A: Algorithm + ?Sized>(
    algorithm: &A,
    state: &A::State,
    now: Micros,
    cost: u64,
    outcome: Outcome,
) -> Standings {
    let refused = outcome == Outcome::Refused;
    let alone = Standing {
        limit: algorithm.limit(),
        remaining: algorithm.remaining(state, now),
        retry_at: if refused { algorithm.retry_at(state, now, cost) } else { 0 },
        settled_at: algorithm.settled_at(state),
    };
    Standings::from_iter([alone])
}

/// [`Algorithm::look`] for a state that is small.
pub(crate) fn look_at_copy<A: Algorithm + ?Sized>(
    algorithm: &A,
    state: &A::State,
    now: Micros,
    cost: u64,
) -> Look {
    let mut repaired = state.clone();
    algorithm.charge(&mut repaired, now, 0);
    let mut charged = repaired.clone();
    let outcome = algorithm.charge(&mut charged, now, cost);
    let mut standings = algorithm.standings(&repaired, now, cost, Outcome::Admitted);
    // When the cost would be admitted is told from the state that the call leaves.
    let then = algorithm.standings(&charged, now, cost, outcome);
    for (standing, then) in standings.iter_mut().zip(&then) {
        standing.retry_at = then.retry_at;
    }
    let none_left = then.iter().any(|standing| standing.remaining == 0);
    let takes_last = outcome == Outcome::Admitted && cost > 0 && none_left;
    Look { outcome, takes_last, standings }
}

/// A number that a policy cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidNumber {
    /// The name of the option as the user wrote it.
    pub option: &'static str,
    /// What it must be.
    pub rule: &'static str,
}

impl fmt::Display for InvalidNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.option, self.rule)
    }
}

impl std::error::Error for InvalidNumber {}

/// Checks a number of units: 1 to 2^53 − 1.
fn checked_units(option: &'static str, units: u64) -> Result<u64, InvalidNumber> {
    if (1..=MAX_SAFE).contains(&units) {
        return Ok(units);
    }
    Err(InvalidNumber { option, rule: "must be a whole number from 1 to 2^53 - 1" })
}

/// Checks a length of time: 1 µs to 2^52 µs.
fn checked_length(option: &'static str, length: Micros) -> Result<Micros, InvalidNumber> {
    if (1..=MAX_TIME).contains(&length) {
        return Ok(length);
    }
    Err(InvalidNumber { option, rule: "must be longer than 0 and at most 2^52 µs (142 years)" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_of_the_numbers() {
        assert!(checked_units("limit", 1).is_ok());
        assert!(checked_units("limit", MAX_SAFE).is_ok());
        assert!(checked_length("window", MAX_TIME).is_ok());
        assert_eq!(
            checked_units("limit", 0).unwrap_err().to_string(),
            "limit must be a whole number from 1 to 2^53 - 1"
        );
        assert!(checked_units("limit", MAX_SAFE + 1).is_err());
        assert_eq!(
            checked_length("window", 0).unwrap_err().to_string(),
            "window must be longer than 0 and at most 2^52 µs (142 years)"
        );
        assert!(checked_length("window", MAX_TIME + 1).is_err());
    }
}
