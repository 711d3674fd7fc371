//! What a caller is told of several limits: those of a policy whose limits have names, and those of
//! several policies that decide together.

use crate::algorithm::{Algorithm, Look, Outcome, Standing, Standings};
use crate::decision::{self, Decision, Status, millis_until, speaker};
use crate::policies::{ByPolicy, Policies};
use crate::policy::{Policy, State};
use crate::short_list::ShortList;
use crate::time::Micros;

/// A decision; and, if there are limits with names, how each of them stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The decision. Its numbers are those of one limit.
    pub decision: Decision,
    /// All limits; `None` for a single policy that is one limit.
    pub several: Option<Box<Several>>,
}

/// How several limits stand after a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Several {
    /// The number of the limit whose numbers the decision tells.
    pub speaker: usize,
    /// Each limit's numbers, in the order in which they were declared. Of several policies each is one
    /// limit, or in its place as many as its own limits have names; those that a call leaves out have
    /// none.
    pub limits: ShortList<LimitNumbers, 4>,
}

/// One limit's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitNumbers {
    /// The largest cost that this limit can ever admit.
    pub limit: u64,
    /// The largest cost that this limit would admit now, after the call.
    pub remaining: u64,
    /// Milliseconds, rounded up, after which this limit would admit the cost if nobody else came: 0
    /// if it does not refuse it and its key is not blocked, `None` if it never can admit it.
    pub retry_after_ms: Option<u64>,
    /// Milliseconds, rounded up, until the key is as if never used by this limit.
    pub reset_after_ms: u64,
}

/// What one of several policies says of a call by itself, and how its limits stand after what became
/// of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vote {
    /// What the policy says, whatever others say.
    pub outcome: Outcome,
    /// Its key is blocked until then; any time up to now if it is not.
    pub blocked_until: Micros,
    /// When the key's own numbers end that are in force.
    pub changes_at: Option<Micros>,
    /// By its own outcome. The block and the end of the key's own numbers are not in these numbers.
    pub standings: Standings,
}

impl Vote {
    /// How the limits stand: a blocked key admits nothing, and is not as if never used, before the
    /// block's end. When a key's own numbers end, the limiter's decide, which may admit the call at once:
    /// nobody should wait for longer.
    fn standings(&self, now: Micros) -> impl Iterator<Item = Standing> {
        let until = if self.blocked_until > now { self.blocked_until } else { 0 };
        let changes_at = self.changes_at.unwrap_or(Micros::MAX);
        self.standings.iter().map(move |standing| Standing {
            retry_at: standing.retry_at.min(changes_at).max(until),
            settled_at: standing.settled_at.max(until),
            ..*standing
        })
    }
}

/// What becomes of a call, by whether a policy says something: it is allowed if all admit it and no key is blocked.
fn verdict(says: impl Fn(Outcome) -> bool, blocked: bool) -> Status {
    match blocked {
        _ if says(Outcome::Impossible) => Status::Impossible,
        true => Status::Blocked,
        false if says(Outcome::Refused) => Status::Refused,
        false => Status::Allowed,
    }
}

impl Several {
    fn of(standings: &[Standing], now: Micros, cost: u64, status: Status) -> Self {
        let numbers = |standing: &Standing| LimitNumbers {
            limit: standing.limit,
            remaining: standing.remaining,
            retry_after_ms: (cost <= standing.limit).then(|| millis_until(standing.retry_at, now)),
            reset_after_ms: millis_until(standing.settled_at, now),
        };
        Self {
            speaker: speaker(standings, status),
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
        Self::of_status(named, standings, now, cost, outcome.into())
    }

    fn of_status(
        named: bool,
        standings: &[Standing],
        now: Micros,
        cost: u64,
        status: Status,
    ) -> Self {
        let several = || Box::new(Several::of(standings, now, cost, status));
        let decision = decision::tell_as(standings, now, status);
        Self { decision, several: named.then(several) }
    }

    /// Tells what became of a call under policies that decide together; their names count if `named`.
    ///
    /// It can never fit if one of them says so; otherwise it is blocked if one of the keys is, and
    /// refused if one of them refuses it. The decision speaks of the limit that [`decision::tell`] would
    /// choose among all of them; of a blocked call, of the one with the longest retry.
    #[must_use]
    pub fn of_votes(named: bool, votes: &[Vote], now: Micros, cost: u64) -> Self {
        let standings: ByPolicy<_> = votes.iter().flat_map(|vote| vote.standings(now)).collect();
        let blocked = votes.iter().any(|vote| vote.blocked_until > now);
        let status = verdict(|outcome| votes.iter().any(|vote| vote.outcome == outcome), blocked);
        Self::of_status(named, &standings, now, cost, status)
    }

    /// [`Told::of`] what would become of a call.
    #[must_use]
    pub fn of_peek(named: bool, look: &Look, now: Micros, cost: u64) -> Self {
        Self::of(named, &look.standings, now, cost, look.outcome).foreseen(look.takes_last)
    }

    /// The same, if it tells of a call that has not been made: an allowed one would take the last unit
    /// if `takes_last`.
    #[must_use]
    pub fn foreseen(self, takes_last: bool) -> Self {
        Self { decision: self.decision.foreseen(takes_last), ..self }
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

/// The states of a key under several policies.
pub trait States {
    /// That under the policy of this number.
    fn of(&mut self, number: usize) -> &mut State;
}

/// Takes `cost` units under several policies that all count by the same key: all charge it, or none.
///
/// It is what [`perform`](crate::perform::perform) does where a key has nothing beside its states.
pub fn take_all(policies: &Policies, states: &mut impl States, now: Micros, cost: u64) -> Told {
    let policies = || policies.named().iter().map(|named| &named.policy).enumerate();
    let outcome = |(number, policy): (usize, &Policy)| {
        let state = states.of(number);
        policy.meet(state, now);
        policy.outcome(state, now, cost)
    };
    let outcomes: ByPolicy<_> = policies().map(outcome).collect();
    let status = verdict(|outcome| outcomes.contains(&outcome), false);
    let mut standings = ByPolicy::new();
    for ((number, policy), outcome) in policies().zip(outcomes) {
        let state = states.of(number);
        if status == Status::Allowed {
            policy.charge(state, now, cost);
        }
        standings.extend(policy.standings(state, now, cost, outcome));
    }
    Told::of_status(true, &standings, now, cost, status)
}

/// [`decision::peek`], and how each limit stands.
pub fn peek<A: Algorithm>(policy: &A, state: &A::State, now: Micros, cost: u64) -> Told {
    Told::of_peek(policy.named_limits() > 0, &policy.look(state, now, cost), now, cost)
}
