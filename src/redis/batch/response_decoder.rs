//! What a batch's callers are told, out of a script's reply.

use crate::algorithm::{Algorithm as _, BOOKING_LENGTH, Booking, Outcome, Preview, RateState};
use crate::policy::decision::{self, Decision};
use crate::policy::execute::Execution;
use crate::policy::multi_policy::{PolicyOutcome, Response};
use crate::policy::operation::{Bookings, Operation};
use crate::policy::policy_set::Policies;
use crate::policy::{Policy, State};
use crate::redis::batch::call_batch::Batch;
use crate::redis::codec::Left;
use crate::redis::codec::reply::{CallError, Entry, Reply};
use crate::redis::codec::request::Asked;
use crate::time::Micros;

impl Batch {
    /// Reads the decisions on the calls out of a reply, from where it stands.
    pub fn decisions<'a>(
        &'a self,
        policies: &'a Policies,
        reply: &'a mut Reply<'_>,
    ) -> impl Iterator<Item = Result<Decision, CallError>> + 'a {
        self.executed(policies, reply).map(|one| one.map(|one| one.response.decision))
    }

    /// [`decisions`](Self::decisions), how each limit stands where limits have names, and the units that
    /// operations are about.
    pub fn executed<'a>(
        &'a self,
        policies: &'a Policies,
        reply: &'a mut Reply<'_>,
    ) -> impl Iterator<Item = Result<Execution, CallError>> + 'a {
        let alone = policies.alone();
        self.calls().map(move |(asked, numbers)| match (asked, alone) {
            (Asked::Take(cost), Some(policy)) => taken(policies, policy, reply, *cost),
            (Asked::Take(cost), None) => several(policies, numbers, reply, *cost),
            (Asked::Other(operation), _) => executed(policies, numbers, reply, operation),
        })
    }
}

/// A call that takes units from one key, by far the most frequent.
fn taken(
    policies: &Policies,
    policy: &Policy,
    reply: &mut Reply<'_>,
    cost: u64,
) -> Result<Execution, CallError> {
    let (entry, now) = (reply.next(policy)?, reply.now());
    let takes = entry.outcome == Outcome::Admitted && entry.blocked_until <= now;
    let units = if takes { cost } else { 0 };
    if let (Entry { left: Left::State(state), own: None, blocked_until: 0, outcome }, 0) =
        (&entry, policies.named_limits())
    {
        let told = decision::to_decision(policy, state, now, cost, *outcome).into();
        return Ok(Execution::new(told, units));
    }
    let named = policies.named_limits() > 0;
    let vote = vote(policy, entry, now, cost);
    Ok(Execution::new(Response::of_policies(named, &[vote], now, cost), units))
}

/// A call that takes units under several policies.
fn several(
    policies: &Policies,
    numbers: &[u16],
    reply: &mut Reply<'_>,
    cost: u64,
) -> Result<Execution, CallError> {
    let votes =
        votes(policies, numbers, reply, |policy, entry, now| vote(policy, entry, now, cost))?;
    let admitted = votes
        .iter()
        .all(|vote| vote.outcome == Outcome::Admitted && vote.blocked_until <= reply.now());
    let told = Response::of_policies(policies.named_limits() > 0, &votes, reply.now(), cost);
    Ok(Execution::new(told, if admitted { cost } else { 0 }))
}

fn executed(
    policies: &Policies,
    numbers: &[u16],
    reply: &mut Reply<'_>,
    operation: &Operation,
) -> Result<Execution, CallError> {
    let named = policies.named_limits() > 0;
    if let Operation::Peek { cost } = *operation {
        return Ok(Execution::new(peeked(policies, numbers, reply, cost)?, 0));
    }
    if let Operation::Book { cost, .. } = *operation {
        return booked(policies, numbers, reply, cost);
    }
    let units = reply.units()?;
    let taken = match *operation {
        // What is told of nothing granted is what a single unit would be told.
        Operation::TakeUpTo { .. } => Some(units.max(1)),
        Operation::Reserve { cost, .. } => Some(cost),
        _ => None,
    };
    if let Some(cost) = taken {
        let vote = |policy: &Policy, entry, now| vote(policy, entry, now, cost);
        let votes = votes(policies, numbers, reply, vote)?;
        return Ok(Execution::new(Response::of_policies(named, &votes, reply.now(), cost), units));
    }
    Ok(Execution::new(peeked(policies, numbers, reply, 0)?, units))
}

/// What became of a booking: the script tells the microseconds until its slot and one more, or 0 if there is
/// none, and the states as they were before.
fn booked(
    policies: &Policies,
    numbers: &[u16],
    reply: &mut Reply<'_>,
    cost: u64,
) -> Result<Execution, CallError> {
    let wait = reply.units()?.checked_sub(1);
    let named = policies.named().iter();
    let concerned: Vec<_> = named.map(|named| numbers[named.subject] > 0).collect();
    let mut befores = Vec::new();
    for _ in concerned.iter().filter(|&&is_concerned| is_concerned && wait.is_some()) {
        let before = reply.numbers::<{ BOOKING_LENGTH / 2 }>()?;
        befores.push(RateState::from_numbers(&before).ok_or(CallError::Malformed)?);
    }
    let mut lefts = Vec::new();
    let votes = votes(policies, numbers, reply, |policy, entry, now| {
        lefts.push(entry.left.clone());
        vote(policy, entry, now, cost)
    })?;
    let mut booked = befores.into_iter().zip(lefts);
    let mut booking = |is_concerned: bool| match is_concerned.then(|| booked.next()).flatten() {
        Some((before, Left::State(State::Rate(left)))) => Some(Booking { before, left }),
        _ => None,
    };
    let bookings = match wait {
        Some(_) => concerned.into_iter().map(&mut booking).collect(),
        None => Bookings::new(),
    };
    let response = Response::of_policies(policies.named_limits() > 0, &votes, reply.now(), cost);
    Ok(Execution { response, units: wait.unwrap_or(0), bookings })
}

/// What would become of a cost.
fn peeked(
    policies: &Policies,
    numbers: &[u16],
    reply: &mut Reply<'_>,
    cost: u64,
) -> Result<Response, CallError> {
    let mut takes_last = false;
    let look = |policy: &Policy, entry: Entry, now| {
        let Entry { outcome, left, own, blocked_until } = entry;
        let changes_at = own.as_ref().map(|(_, ends)| *ends);
        let policy = own.as_ref().map_or(policy, |(own, _)| own);
        let look = match left {
            Left::State(state) => policy.preview(&state, now, cost),
            Left::Statuses(statuses) => Preview::at(statuses.into(), cost, outcome),
        };
        takes_last |= look.takes_last;
        PolicyOutcome { outcome: look.outcome, blocked_until, changes_at, statuses: look.statuses }
    };
    let votes = votes(policies, numbers, reply, look)?;
    let named = policies.named_limits() > 0;
    Ok(Response::of_policies(named, &votes, reply.now(), cost).with_takes_last(takes_last))
}

/// Reads what each policy says, all of them also if one has failed.
fn votes(
    policies: &Policies,
    numbers: &[u16],
    reply: &mut Reply<'_>,
    mut vote: impl FnMut(&Policy, Entry, Micros) -> PolicyOutcome,
) -> Result<Vec<PolicyOutcome>, CallError> {
    let concerned = policies.named().iter().filter(|named| numbers[named.subject] > 0);
    let entries: Vec<_> =
        concerned.map(|named| (&named.policy, reply.next(&named.policy))).collect();
    let now = reply.now();
    entries.into_iter().map(|(policy, entry)| Ok(vote(policy, entry?, now))).collect()
}

/// What a policy says, by the state that the call left.
fn vote(policy: &Policy, entry: Entry, now: Micros, cost: u64) -> PolicyOutcome {
    let Entry { outcome, left, own, blocked_until } = entry;
    let changes_at = own.as_ref().map(|(_, ends)| *ends);
    let policy = own.as_ref().map_or(policy, |(own, _)| own);
    let statuses = match left {
        Left::State(state) => policy.limit_statuses(&state, now, cost, outcome),
        Left::Statuses(statuses) => statuses.into(),
    };
    PolicyOutcome { outcome, blocked_until, changes_at, statuses }
}
