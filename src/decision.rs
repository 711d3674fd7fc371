//! What a caller is told.

use crate::algorithm::{Algorithm, Look, Outcome, Standing};
use crate::time::{Micros, whole_millis};

/// What became of a call, as callers see it.
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
    /// Refused until a block of the key ends, whatever room there is.
    Blocked,
}

/// As callers see it before they know what is left.
impl From<Outcome> for Status {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Admitted => Self::Allowed,
            Outcome::Refused => Self::Refused,
            Outcome::Impossible => Self::Impossible,
        }
    }
}

/// The answer to one call under one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// What became of the call.
    pub status: Status,
    /// The largest cost that a call can ever have.
    pub limit: u64,
    /// The largest cost that would be admitted now, after this call.
    pub remaining: u64,
    /// Milliseconds, rounded up, after which the same cost would be admitted if nobody else came.
    /// 0 if it was admitted or never can be.
    pub retry_after_ms: u64,
    /// Milliseconds, rounded up, until the key is as if never used.
    pub reset_after_ms: u64,
    /// The time of the decision.
    pub at: Micros,
}

/// Takes `cost` units, if they fit.
#[inline]
pub fn take<A: Algorithm>(policy: &A, state: &mut A::State, now: Micros, cost: u64) -> Decision {
    let outcome = policy.charge(state, now, cost);
    describe(policy, state, now, cost, outcome)
}

/// What [`take`] would answer, but that the numbers are those of the state as it stands.
///
/// `cost` may be 0. Nothing is charged; a state that a clock step left behind is seen repaired.
pub fn peek<A: Algorithm>(policy: &A, state: &A::State, now: Micros, cost: u64) -> Decision {
    tell_peek(&policy.look(state, now, cost), now)
}

/// Tells of an outcome, by the state that the call left.
#[inline]
pub fn describe<A: Algorithm>(
    policy: &A,
    state: &A::State,
    now: Micros,
    cost: u64,
    outcome: Outcome,
) -> Decision {
    if policy.named_limits() > 0 {
        return tell(&policy.standings(state, now, cost, outcome), now, outcome);
    }
    let decision = Decision {
        status: Status::Allowed,
        limit: policy.limit(),
        remaining: policy.remaining(state, now),
        retry_after_ms: 0,
        reset_after_ms: millis_until(policy.settled_at(state), now),
        at: now,
    };
    match outcome {
        Outcome::Admitted if decision.remaining > 0 => decision,
        Outcome::Admitted => Decision { status: Status::AllowedLast, ..decision },
        Outcome::Refused => {
            let retry_after_ms = millis_until(policy.retry_at(state, now, cost), now);
            Decision { status: Status::Refused, retry_after_ms, ..decision }
        }
        Outcome::Impossible => Decision { status: Status::Impossible, ..decision },
    }
}

/// Tells of an outcome, by how each of the policy's limits stands after the call.
///
/// It speaks of one of them: of the one with the longest retry if the call was refused, of the
/// smallest if it can never fit, of the one with the least remaining otherwise; of the first where
/// several are equal.
#[must_use]
pub fn tell(standings: &[Standing], now: Micros, outcome: Outcome) -> Decision {
    tell_as(standings, now, outcome.into())
}

/// [`tell`] for what may be blocked, too. Whether an allowed call took the last unit is seen by what
/// remains.
pub(crate) fn tell_as(standings: &[Standing], now: Micros, status: Status) -> Decision {
    let told = standings.get(speaker(standings, status)).copied().unwrap_or_default();
    let (status, retry_after_ms) = match status {
        Status::Allowed | Status::AllowedLast if told.remaining > 0 => (Status::Allowed, 0),
        Status::Allowed | Status::AllowedLast => (Status::AllowedLast, 0),
        Status::Refused | Status::Blocked => (status, millis_until(told.retry_at, now)),
        Status::Impossible => (status, 0),
    };
    let settled_at = standings.iter().map(|standing| standing.settled_at).max().unwrap_or_default();
    Decision {
        status,
        limit: told.limit,
        remaining: told.remaining,
        retry_after_ms,
        reset_after_ms: millis_until(settled_at, now),
        at: now,
    }
}

/// [`tell`] of what would become of a call.
#[must_use]
pub fn tell_peek(look: &Look, now: Micros) -> Decision {
    tell(&look.standings, now, look.outcome).foreseen(look.takes_last)
}

impl Decision {
    /// The same, if it tells of a call that has not been made: what remains says nothing of whether an
    /// allowed one would take the last unit.
    pub(crate) fn foreseen(self, takes_last: bool) -> Self {
        let status = match self.status {
            Status::Allowed | Status::AllowedLast if takes_last => Status::AllowedLast,
            Status::Allowed | Status::AllowedLast => Status::Allowed,
            status => status,
        };
        Self { status, ..self }
    }
}

/// The number of the limit that a decision speaks of: see [`tell`].
pub(crate) fn speaker(standings: &[Standing], status: Status) -> usize {
    let rank = |(_, standing): &(usize, &Standing)| match status {
        Status::Allowed | Status::AllowedLast => standing.remaining,
        Status::Refused | Status::Blocked => u64::MAX - standing.retry_at,
        Status::Impossible => standing.limit,
    };
    standings.iter().enumerate().min_by_key(rank).map_or(0, |(index, _)| index)
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
        let mut state = policy.unused();
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

    #[test]
    fn a_peek_answers_as_take_would_with_the_numbers_as_they_stand() {
        let policy = two_per_second();
        let mut state = policy.unused();
        take(&policy, &mut state, 0, 1);
        let one = peek(&policy, &state, 0, 1);
        assert_eq!((one.status, one.remaining), (Status::AllowedLast, 1));
        let two = peek(&policy, &state, 0, 2);
        assert_eq!((two.status, two.retry_after_ms), (Status::Refused, 1_000));
        assert_eq!(peek(&policy, &state, 0, 3).status, Status::Impossible);
        take(&policy, &mut state, 0, 1);
        let nothing = peek(&policy, &state, 0, 0);
        assert_eq!((nothing.status, nothing.remaining), (Status::Allowed, 0));
    }

    #[test]
    fn an_unused_key_needs_no_reset() {
        let policy = two_per_second();
        let decision = peek(&policy, &policy.unused(), 9, 0);
        assert_eq!((decision.remaining, decision.reset_after_ms, decision.at), (2, 0, 9));
    }
}
