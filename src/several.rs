//! What a caller is told of a policy that has several limits with names.

use crate::algorithm::{Algorithm, Look, Outcome, Standing};
use crate::decision::{self, Decision, millis_until, speaker};
use crate::time::Micros;

/// A decision; and, if the policy's limits have names, how each of them stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The decision. Its numbers are those of one limit.
    pub decision: Decision,
    /// All limits; `None` for a policy that is one limit.
    pub several: Option<Box<Several>>,
}

/// How several limits stand after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Several {
    /// The number of the limit whose numbers the decision tells.
    pub speaker: usize,
    /// Each limit's numbers, in the order in which they were declared.
    pub limits: Vec<LimitNumbers>,
}

/// One limit's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitNumbers {
    /// The largest cost that this limit can ever admit.
    pub limit: u64,
    /// The largest cost that this limit would admit now, after the call.
    pub remaining: u64,
    /// Milliseconds, rounded up, after which this limit would admit the cost if nobody else came: 0
    /// if it does not refuse it, `None` if it never can admit it.
    pub retry_after_ms: Option<u64>,
    /// Milliseconds, rounded up, until the key is as if never used by this limit.
    pub reset_after_ms: u64,
}

impl Several {
    fn of(standings: &[Standing], now: Micros, cost: u64, outcome: Outcome) -> Self {
        let numbers = |standing: &Standing| LimitNumbers {
            limit: standing.limit,
            remaining: standing.remaining,
            retry_after_ms: match outcome {
                Outcome::Admitted => Some(0),
                Outcome::Refused => Some(millis_until(standing.retry_at, now)),
                Outcome::Impossible => (cost <= standing.limit).then_some(0),
            },
            reset_after_ms: millis_until(standing.settled_at, now),
        };
        Self {
            speaker: speaker(standings, outcome),
            limits: standings.iter().map(numbers).collect(),
        }
    }
}

impl Told {
    /// Tells of an outcome by how the limits stand; their names count if `named`.
    #[must_use]
    pub fn of(
        named: bool,
        standings: &[Standing],
        now: Micros,
        cost: u64,
        outcome: Outcome,
    ) -> Self {
        let several = || Box::new(Several::of(standings, now, cost, outcome));
        let decision = decision::tell(standings, now, outcome);
        Self { decision, several: named.then(several) }
    }

    /// [`Told::of`] what would become of a call.
    #[must_use]
    pub fn of_peek(named: bool, look: &Look, now: Micros, cost: u64) -> Self {
        let decision = decision::tell_peek(look, now);
        Self { decision, ..Self::of(named, &look.standings, now, cost, look.outcome) }
    }
}

impl From<Decision> for Told {
    fn from(decision: Decision) -> Self {
        Self { decision, several: None }
    }
}

/// [`decision::take`], and how each limit stands.
pub fn take<A: Algorithm>(policy: &A, state: &mut A::State, now: Micros, cost: u64) -> Told {
    let outcome = policy.charge(state, now, cost);
    let standings = policy.standings(state, now, cost, outcome);
    Told::of(policy.named_limits() > 0, &standings, now, cost, outcome)
}

/// [`decision::peek`], and how each limit stands.
pub fn peek<A: Algorithm>(policy: &A, state: &A::State, now: Micros, cost: u64) -> Told {
    Told::of_peek(policy.named_limits() > 0, &policy.look(state, now, cost), now, cost)
}
