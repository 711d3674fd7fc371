//! The algorithms: pure functions over integers.
//!
//! Each algorithm is a file here and, for Redis, a Lua twin of the same name in `lua/`. The
//! head of a file states the algorithm's *admission law*: the most units that it admits in any
//! window of the deciding clock. An algorithm reads no clock, holds no lock and does not depend on
//! a store.
//!
//! A twin implements only [`Algorithm::charge`]. Rust alone computes the numbers of a decision
//! ([`Algorithm::remaining`], [`Algorithm::retry_at`]) from the state after `charge`: they need
//! divisions that Lua's doubles cannot do exactly.

mod calendar_window;
mod concurrency;
mod fixed_window;
mod rate;
mod shared;
mod sliding_counter;
mod sliding_log;
mod sliding_window;
mod token_bucket_interval;

pub use calendar_window::CalendarWindow;
#[cfg(feature = "node")]
pub(crate) use calendar_window::UNKNOWN_TIME_ZONE;
pub use concurrency::{
    Concurrency, MAX_PERMITS, MAX_TICKETS, Permit, PermitId, PermitRequest, PermitState,
    TICKET_LIFE, Ticket,
};
pub use fixed_window::{FixedWindow, WindowState};
pub use rate::arrival::{Arrival, MAX_WAIT, RateNumbers, RateState};
pub use rate::gcra::Gcra;
pub use rate::leaky_bucket::LeakyBucket;
pub use rate::scheduled::{SCHEDULED_RESERVATION_LENGTH, ScheduledReservation};
pub use rate::token_bucket::TokenBucket;
pub use rate::{Rate, RateBased};
pub use shared::buckets::SlidingState;
pub use shared::levels::{LINGER, Levels};
pub use sliding_counter::{CounterState, SlidingCounter};
pub use sliding_log::log::LogState;
pub use sliding_log::{DROP_EVERY, LogLimit, MAX_DROPPED, MAX_LIMITS, MAX_LOG_LIMIT, SlidingLog};
pub use sliding_window::{BucketLayout, MAX_BUCKETS, SlidingWindow};
pub use token_bucket_interval::{IntervalBucket, IntervalNumbers, IntervalState};

use std::fmt;

use crate::short_list::ShortList;
use crate::time::{MAX_SAFE, MAX_TIME, Micros};

/// The outcome of a call under one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The cost fits and has been charged.
    Admitted,
    /// The cost does not fit now; nothing was charged.
    Refused,
    /// The cost is above what the policy can ever admit at once; nothing was charged.
    Impossible,
}

/// The state of one key.
pub trait KeyState: Clone + PartialEq + fmt::Debug {
    /// From this time on the key is fresh: dropping its state changes no decision.
    fn reset_at(&self) -> Micros;

    /// Whether no rolling window can contain units of a key that is fresh again.
    ///
    /// This is true of rates, whose units have drained. It is false of a window that has ended: its
    /// units are within a window's length of the next units.
    fn drains(&self) -> bool;
}

/// The status of one limit of a policy after a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitStatus {
    /// The limit as the user wrote it: see [`Algorithm::limit`].
    pub limit: u64,
    /// The largest cost that a call can ever have.
    pub capacity: u64,
    /// The largest cost that would be admitted now.
    pub remaining: u64,
    /// The first time at which the cost would be admitted, if this limit refused it; otherwise any
    /// time up to now.
    pub retry_at: Micros,
    /// The first time at which a cost of 1 would be admitted; any time up to now if it would be
    /// admitted now.
    pub next_at: Micros,
    /// From this time on the key is fresh.
    pub reset_at: Micros,
    /// The mark of the key, if this policy admitted the call: see
    /// [`Mark`](crate::policy::mark::Mark). Otherwise 0.
    pub mark: u64,
}

/// The status of each limit of a policy. Nearly all policies have one limit.
pub type LimitStatuses = ShortList<LimitStatus, 1>;

/// An earlier charge, by its decision. A refund needs it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChargeRecord {
    /// The time of the decision.
    pub at: Micros,
    /// The time at which the key was to be fresh by that decision: `at` plus its `reset_after_ms`.
    pub reset_at: Micros,
    /// The mark of the decision: see [`Mark`](crate::policy::mark::Mark). An algorithm gets how far
    /// the units have moved since instead.
    pub mark: u64,
    /// The units of the call. If they are unknown, a smaller number.
    pub cost: u64,
    /// The units that were used after the call. If they are unknown, a smaller number.
    pub used: u64,
    /// The units of the call that stay charged after the refund. If they are unknown, a smaller
    /// number.
    pub kept: u64,
}

/// Whether a charge rewrites the units of earlier calls, so that a refund no longer finds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewrites {
    /// It does not.
    Never,
    /// It does if the call is admitted: the state has the numbers of another policy.
    IfAdmitted,
    /// It does even if the call is refused: the state is repaired.
    Always,
}

/// The outcome that a call would have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The outcome.
    pub outcome: Outcome,
    /// Whether the call would take the last unit.
    pub takes_last: bool,
    /// The status of each limit without the call; `retry_at` is that of the call if the call would
    /// be refused.
    pub statuses: LimitStatuses,
}

impl Preview {
    /// A preview under limits that are fully used once their remaining units are taken.
    #[must_use]
    pub fn at(statuses: LimitStatuses, cost: u64, outcome: Outcome) -> Self {
        let least = statuses.iter().map(|limit| limit.remaining).min();
        let takes_last = outcome == Outcome::Admitted && cost > 0 && least == Some(cost);
        Self { outcome, takes_last, statuses }
    }
}

/// One rate limiting algorithm with its numbers.
///
/// Its functions are pure: their results depend on their arguments alone. Every implementation
/// keeps these laws, and `tests/engine/` proves them:
///
/// - **Admission.** The bound at the head of its file, under any order of calls.
/// - **Generosity.** A lone caller gets exactly the promised units.
/// - **No charge for refusal.** Unless the outcome is [`Outcome::Admitted`], the state does not
///   change. Two changes are not charges: the repair below, and the first call on a bucket that
///   begins with less than its capacity (see [`Levels`]).
/// - **Honesty.** [`remaining`](Self::remaining) is the largest cost that would be admitted now;
///   [`retry_at`](Self::retry_at) is the first microsecond at which the refused cost would be.
/// - **Repair.** After a step back of the clock a state may be further ahead than the algorithm can
///   have written it (its horizon: the time to full, or the window). It is then moved to within the
///   horizon, even if the call is refused. So a clock that jumps far forward and back locks a key
///   for no longer than the horizon. Windows keep their counts. Rates, buckets and logs are fully
///   used at `now`.
pub trait Algorithm {
    /// The state of one key.
    type State: KeyState;

    /// The state of a fresh key.
    fn initial_state(&self) -> Self::State;

    /// The largest cost that a single call can ever have.
    fn capacity(&self) -> u64;

    /// The main number of the policy, as the user wrote it: the limit of a window or of a rate, the
    /// capacity of a bucket without its debt. It differs from [`capacity`](Self::capacity) for a
    /// rate with another burst and for a bucket with debt.
    fn limit(&self) -> u64 {
        self.capacity()
    }

    /// Charges `cost` units at the time `now`, if they fit.
    ///
    /// A cost of 0 is admitted, and only repairs the state.
    fn charge(&self, state: &mut Self::State, now: Micros, cost: u64) -> Outcome;

    /// Brings the state up to date before a call with a cost, whatever its outcome: repairs it, and
    /// records the first call on a bucket that begins low. Nothing is charged.
    fn normalize(&self, state: &mut Self::State, now: Micros) {
        self.charge(state, now, 0);
    }

    /// The outcome that a cost would have. The state has been [normalized](Self::normalize) at
    /// `now`. [`charge`](Self::charge) equals normalizing and then, if this function admits the
    /// cost, charging it.
    fn outcome(&self, state: &Self::State, now: Micros, cost: u64) -> Outcome {
        self.charge(&mut state.clone(), now, cost)
    }

    /// Refunds up to `units` units of an earlier call, and returns how many were still charged and
    /// so came back. If none were, the state does not change.
    ///
    /// The state has been [normalized](Self::normalize) at `now`. No level ends above full. What
    /// cannot be proven to be whole units of the call that are still charged does not come back. So
    /// the law holds of the admitted units less the refunded ones, each counted at the time of its
    /// call.
    fn refund(&self, state: &mut Self::State, now: Micros, units: u64, taken: ChargeRecord) -> u64;

    /// Whether a charge at `now` rewrites the units of earlier calls.
    fn rewrites(&self, state: &Self::State, now: Micros) -> Rewrites;

    /// The mark that a decision on this state carries: see [`Mark`](crate::policy::mark::Mark).
    #[inline]
    fn mark(&self, _: &Self::State) -> u64 {
        0
    }

    /// The largest cost that would be admitted at the time `now`.
    fn remaining(&self, state: &Self::State, now: Micros) -> u64;

    /// The first time at which `cost` would be admitted if no other call came.
    ///
    /// Called only after a call was [`Outcome::Refused`] at `now`, with the state after that call.
    fn retry_at(&self, state: &Self::State, now: Micros, cost: u64) -> Micros;

    /// From this time on the key has its full allowance under this policy, whose clock is at `now`.
    /// Under other numbers it is fresh no later than at [`KeyState::reset_at`].
    #[inline]
    fn reset_at(&self, state: &Self::State, _now: Micros) -> Micros {
        state.reset_at()
    }

    /// The number of limits that decisions name; 0 for a policy with one limit.
    #[inline]
    fn named_limits(&self) -> usize {
        0
    }

    /// The status of each limit after a call, in the order of declaration. `state` is that after
    /// the call.
    fn limit_statuses(
        &self,
        state: &Self::State,
        now: Micros,
        cost: u64,
        outcome: Outcome,
    ) -> LimitStatuses {
        single_limit_status(self, state, now, cost, outcome)
    }

    /// The outcome that a call would have, and the status of each limit without it. Nothing is
    /// charged.
    ///
    /// A state that is too far ahead after a clock step is previewed as if repaired. Its
    /// [`next_at`](LimitStatus::next_at) is that of a bucket that begins now, if it is fresh and begins
    /// low.
    fn preview(&self, state: &Self::State, now: Micros, cost: u64) -> Preview {
        preview_of_copy(self, state, now, cost)
    }
}

/// [`Algorithm::limit_statuses`] of a policy with one limit.
pub(crate) fn single_limit_status<A: Algorithm + ?Sized>(
    algorithm: &A,
    state: &A::State,
    now: Micros,
    cost: u64,
    outcome: Outcome,
) -> LimitStatuses {
    let refused = outcome == Outcome::Refused;
    let remaining = algorithm.remaining(state, now);
    let retry_at = if refused { algorithm.retry_at(state, now, cost) } else { 0 };
    let alone = LimitStatus {
        limit: algorithm.limit(),
        capacity: algorithm.capacity(),
        remaining,
        retry_at,
        next_at: match remaining {
            0 if refused && cost == 1 => retry_at,
            0 => algorithm.retry_at(state, now, 1),
            _ => 0,
        },
        reset_at: algorithm.reset_at(state, now),
        mark: 0,
    };
    LimitStatuses::from_iter([alone])
}

/// [`Algorithm::preview`] of a small state.
pub(crate) fn preview_of_copy<A: Algorithm + ?Sized>(
    algorithm: &A,
    state: &A::State,
    now: Micros,
    cost: u64,
) -> Preview {
    let mut repaired = state.clone();
    algorithm.charge(&mut repaired, now, 0);
    let mut normalized = repaired.clone();
    algorithm.normalize(&mut normalized, now);
    let mut charged = normalized.clone();
    let outcome = algorithm.charge(&mut charged, now, cost);
    let mut statuses = algorithm.limit_statuses(&repaired, now, cost, Outcome::Admitted);
    let begun = algorithm.limit_statuses(&normalized, now, cost, Outcome::Admitted);
    // `retry_at` is computed from the state after the call.
    let then = algorithm.limit_statuses(&charged, now, cost, outcome);
    for ((standing, begun), then) in statuses.iter_mut().zip(&begun).zip(&then) {
        (standing.next_at, standing.retry_at) = (begun.next_at, then.retry_at);
    }
    let none_left = then.iter().any(|limit| limit.remaining == 0);
    let takes_last = outcome == Outcome::Admitted && cost > 0 && none_left;
    Preview { outcome, takes_last, statuses }
}

/// The error for an invalid number of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidNumber {
    /// The name of the option as the user wrote it.
    pub option: &'static str,
    /// The rule that the number breaks.
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
