//! The decision on a call, as callers see it.

use crate::algorithm::{Algorithm, LimitStatus, Outcome};
use crate::time::{Micros, whole_millis};

/// The outcome of a call, as callers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Admitted, and at least one unit is left.
    Allowed,
    /// Admitted, and it took the last unit.
    AllowedLast,
    /// Refused now; it would be admitted later.
    Refused,
    /// Refused at any time: the cost is above the limit.
    Impossible,
    /// Refused until a block of the key ends, even if the cost fits.
    Blocked,
}

/// The status before the remaining units are known.
impl From<Outcome> for Status {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Admitted => Self::Allowed,
            Outcome::Refused => Self::Refused,
            Outcome::Impossible => Self::Impossible,
        }
    }
}

/// The decision on one call under one policy.
///
/// # Examples
/// ```
/// use tollgate::algorithm::{Algorithm as _, FixedWindow};
/// use tollgate::policy::decision::{Status, take};
/// let window = FixedWindow::new(3, 60_000_000).unwrap();
/// let decision = take(&window, &mut window.initial_state(), 0, 2);
/// assert_eq!((decision.status, decision.remaining), (Status::Allowed, 1));
/// assert_eq!(decision.reset_after_ms, 60_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The outcome of the call.
    pub status: Status,
    /// The limit as the user wrote it: see [`Algorithm::limit`].
    pub limit: u64,
    /// The largest cost that a call can ever have.
    pub capacity: u64,
    /// The largest cost that would be admitted now, after this call.
    pub remaining: u64,
    /// Milliseconds, rounded up, after which the same cost would be admitted if no other call came.
    /// 0 if it never can be.
    ///
    /// Of an admitted call it is the mark of the key, which a refund needs: 0 for a key without one
    /// (see [`Mark`](crate::policy::mark::Mark)). A field of its own would slow down every call.
    pub retry_after_ms: u64,
    /// Milliseconds, rounded up, until a call of cost 1 would be admitted if no other call came.
    pub next_after_ms: u64,
    /// Milliseconds, rounded up, until the key has its full allowance.
    pub reset_after_ms: u64,
    /// The exact time of `retry_after_ms`; `at` for a call that is admitted or can never be.
    pub retry_at: Micros,
    /// The exact time of `reset_after_ms`.
    pub reset_at: Micros,
    /// The time of the decision.
    pub at: Micros,
}

/// Takes `cost` units, if they fit.
#[inline]
pub fn take<A: Algorithm>(policy: &A, state: &mut A::State, now: Micros, cost: u64) -> Decision {
    let outcome = policy.charge(state, now, cost);
    to_decision(policy, state, now, cost, outcome)
}

/// Makes the decision of an outcome and the state after the call.
#[inline]
pub fn to_decision<A: Algorithm>(
    policy: &A,
    state: &A::State,
    now: Micros,
    cost: u64,
    outcome: Outcome,
) -> Decision {
    if policy.named_limits() > 0 {
        return decision_of_limits(&policy.limit_statuses(state, now, cost, outcome), now, outcome);
    }
    let remaining = policy.remaining(state, now);
    let reset_at = policy.reset_at(state, now);
    let decision = Decision {
        status: Status::Allowed,
        limit: policy.limit(),
        capacity: policy.capacity(),
        remaining,
        retry_after_ms: 0,
        next_after_ms: 0,
        reset_after_ms: millis_until(reset_at, now),
        retry_at: now,
        reset_at: reset_at.max(now),
        at: now,
    };
    let next_after_ms = || if remaining > 0 { 0 } else { empty_for_ms(policy, state, now) };
    match outcome {
        Outcome::Admitted => {
            let status = if remaining == 0 { Status::AllowedLast } else { Status::Allowed };
            let (retry_after_ms, next_after_ms) = (policy.mark(state), next_after_ms());
            Decision { status, retry_after_ms, next_after_ms, ..decision }
        }
        Outcome::Refused => {
            let retry_at = policy.retry_at(state, now, cost);
            let retry_after_ms = millis_until(retry_at, now);
            let next_after_ms = if cost == 1 { retry_after_ms } else { next_after_ms() };
            let status = Status::Refused;
            Decision { status, retry_after_ms, next_after_ms, retry_at, ..decision }
        }
        Outcome::Impossible => {
            Decision { status: Status::Impossible, next_after_ms: next_after_ms(), ..decision }
        }
    }
}

/// The milliseconds until a key without units has one. Out of line: most decisions do not need it.
#[cold]
#[inline(never)]
fn empty_for_ms<A: Algorithm>(policy: &A, state: &A::State, now: Micros) -> u64 {
    millis_until(policy.retry_at(state, now, 1), now)
}

/// Makes the decision of an outcome and the status of each limit after the call.
///
/// The decision has the numbers of one limit, the *reported* one: of a refused call the limit with
/// the longest retry, of an impossible call the smallest limit, otherwise the limit with the fewest
/// remaining units. Among equals it is the first.
#[must_use]
pub fn decision_of_limits(statuses: &[LimitStatus], now: Micros, outcome: Outcome) -> Decision {
    let status = outcome.into();
    decision_of_status(statuses, reported_limit(statuses, status), now, status)
}

/// [`decision_of_limits`] by a status, which may be [`Status::Blocked`], and by the index of the
/// reported limit. For an allowed call, the remaining units determine whether it took the last unit.
pub(crate) fn decision_of_status(
    statuses: &[LimitStatus],
    reported: usize,
    now: Micros,
    status: Status,
) -> Decision {
    let limit = statuses.get(reported).copied().unwrap_or_default();
    let (status, retry_after_ms) = match status {
        Status::Allowed | Status::AllowedLast if limit.remaining > 0 => {
            (Status::Allowed, limit.mark)
        }
        Status::Allowed | Status::AllowedLast => (Status::AllowedLast, limit.mark),
        Status::Refused | Status::Blocked => (status, millis_until(limit.retry_at, now)),
        Status::Impossible => (status, 0),
    };
    let retry_at = match status {
        Status::Refused | Status::Blocked => limit.retry_at.max(now),
        Status::Allowed | Status::AllowedLast | Status::Impossible => now,
    };
    let next_at = statuses.iter().map(|limit| limit.next_at).max().unwrap_or_default();
    let reset_at = statuses.iter().map(|limit| limit.reset_at).max().unwrap_or_default();
    Decision {
        status,
        limit: limit.limit,
        capacity: limit.capacity,
        remaining: limit.remaining,
        retry_after_ms,
        next_after_ms: millis_until(next_at, now),
        reset_after_ms: millis_until(reset_at, now),
        retry_at,
        reset_at: reset_at.max(now),
        at: now,
    }
}

impl Decision {
    /// The decision on a call that has not been made. `takes_last` says whether the call would take
    /// the last unit, because the remaining units do not.
    pub(crate) fn with_takes_last(self, takes_last: bool) -> Self {
        let status = match self.status {
            Status::Allowed | Status::AllowedLast if takes_last => Status::AllowedLast,
            Status::Allowed | Status::AllowedLast => Status::Allowed,
            status => status,
        };
        Self { status, ..self }
    }
}

/// The index of the limit whose numbers a decision has: see [`decision_of_limits`].
pub(crate) fn reported_limit(statuses: &[LimitStatus], status: Status) -> usize {
    let rank = |(_, limit): &(usize, &LimitStatus)| match status {
        Status::Allowed | Status::AllowedLast => limit.remaining,
        Status::Refused | Status::Blocked => u64::MAX - limit.retry_at,
        Status::Impossible => limit.capacity,
    };
    statuses.iter().enumerate().min_by_key(rank).map_or(0, |(index, _)| index)
}

pub(crate) fn millis_until(time: Micros, now: Micros) -> u64 {
    whole_millis(time.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::FixedWindow;

    fn two_per_second() -> FixedWindow {
        FixedWindow::new(2, 1_000_000).unwrap()
    }

    #[test]
    fn the_statuses_in_order() {
        let policy = two_per_second();
        let mut state = policy.initial_state();
        let statuses = [3, 1, 1, 1].map(|cost| {
            let decision = take(&policy, &mut state, 500, cost);
            (decision.status, decision.remaining, decision.retry_after_ms)
        });
        assert_eq!(
            statuses,
            [
                (Status::Impossible, 2, 0),
                (Status::Allowed, 1, 0),
                (Status::AllowedLast, 0, 0),
                (Status::Refused, 0, 1_001),
            ]
        );
    }
}
