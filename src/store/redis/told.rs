//! What a batch's callers are told, out of a script's reply.

use super::batch::Batch;
use super::reply::{CallError, Entry, Reply};
use super::request::Asked;
use super::wire::Left;
use crate::algorithm::{Algorithm as _, BOOKING_LENGTH, Booking, Look, Outcome, RateState};
use crate::decision::{self, Decision};
use crate::operation::{Bookings, Operation};
use crate::perform::Performed;
use crate::policies::Policies;
use crate::policy::{Policy, State};
use crate::several::{Told, Vote};
use crate::time::Micros;

impl Batch {
    /// Reads the decisions on the calls out of a reply, from where it stands.
    pub fn decisions<'a>(
        &'a self,
        policies: &'a Policies,
        reply: &'a mut Reply<'_>,
    ) -> impl Iterator<Item = Result<Decision, CallError>> + 'a {
        self.performed(policies, reply).map(|one| one.map(|one| one.told.decision))
    }

    /// [`decisions`](Self::decisions), how each limit stands where limits have names, and the units that
    /// operations are about.
    pub fn performed<'a>(
        &'a self,
        policies: &'a Policies,
        reply: &'a mut Reply<'_>,
    ) -> impl Iterator<Item = Result<Performed, CallError>> + 'a {
        let alone = policies.alone();
        self.calls().map(move |(asked, numbers)| match (asked, alone) {
            (Asked::Take(cost), Some(policy)) => taken(policies, policy, reply, *cost),
            (Asked::Take(cost), None) => several(policies, numbers, reply, *cost),
            (Asked::Other(operation), _) => performed(policies, numbers, reply, operation),
        })
    }
}

/// A call that takes units from one key, by far the most frequent.
fn taken(
    policies: &Policies,
    policy: &Policy,
    reply: &mut Reply<'_>,
    cost: u64,
) -> Result<Performed, CallError> {
    let (entry, now) = (reply.next(policy)?, reply.now());
    let takes = entry.outcome == Outcome::Admitted && entry.blocked_until <= now;
    let units = if takes { cost } else { 0 };
    if let (Entry { left: Left::State(state), own: None, blocked_until: 0, outcome }, 0) =
        (&entry, policies.named_limits())
    {
        let told = decision::describe(policy, state, now, cost, *outcome).into();
        return Ok(Performed::new(told, units));
    }
    let named = policies.named_limits() > 0;
    let vote = vote(policy, entry, now, cost);
    Ok(Performed::new(Told::of_votes(named, &[vote], now, cost), units))
}

/// A call that takes units under several policies.
fn several(
    policies: &Policies,
    numbers: &[u16],
    reply: &mut Reply<'_>,
    cost: u64,
) -> Result<Performed, CallError> {
    let votes =
        votes(policies, numbers, reply, |policy, entry, now| vote(policy, entry, now, cost))?;
    let admitted = votes
        .iter()
        .all(|vote| vote.outcome == Outcome::Admitted && vote.blocked_until <= reply.now());
    let told = Told::of_votes(policies.named_limits() > 0, &votes, reply.now(), cost);
    Ok(Performed::new(told, if admitted { cost } else { 0 }))
}

fn performed(
    policies: &Policies,
    numbers: &[u16],
    reply: &mut Reply<'_>,
    operation: &Operation,
) -> Result<Performed, CallError> {
    let named = policies.named_limits() > 0;
    if let Operation::Peek { cost } = *operation {
        return Ok(Performed::new(peeked(policies, numbers, reply, cost)?, 0));
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
        return Ok(Performed::new(Told::of_votes(named, &votes, reply.now(), cost), units));
    }
    Ok(Performed::new(peeked(policies, numbers, reply, 0)?, units))
}

/// What became of a booking: the script tells the microseconds until its slot and one more, or 0 if there is
/// none, and the states as they were before.
fn booked(
    policies: &Policies,
    numbers: &[u16],
    reply: &mut Reply<'_>,
    cost: u64,
) -> Result<Performed, CallError> {
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
    let told = Told::of_votes(policies.named_limits() > 0, &votes, reply.now(), cost);
    Ok(Performed { told, units: wait.unwrap_or(0), bookings })
}

/// What would become of a cost.
fn peeked(
    policies: &Policies,
    numbers: &[u16],
    reply: &mut Reply<'_>,
    cost: u64,
) -> Result<Told, CallError> {
    let mut takes_last = false;
    let look = |policy: &Policy, entry: Entry, now| {
        let Entry { outcome, left, own, blocked_until } = entry;
        let changes_at = own.as_ref().map(|(_, ends)| *ends);
        let policy = own.as_ref().map_or(policy, |(own, _)| own);
        let look = match left {
            Left::State(state) => policy.look(&state, now, cost),
            Left::Told(standings) => Look::at(standings.into(), cost, outcome),
        };
        takes_last |= look.takes_last;
        Vote { outcome: look.outcome, blocked_until, changes_at, standings: look.standings }
    };
    let votes = votes(policies, numbers, reply, look)?;
    let named = policies.named_limits() > 0;
    Ok(Told::of_votes(named, &votes, reply.now(), cost).foreseen(takes_last))
}

/// Reads what each policy says, all of them also if one has failed.
fn votes(
    policies: &Policies,
    numbers: &[u16],
    reply: &mut Reply<'_>,
    mut vote: impl FnMut(&Policy, Entry, Micros) -> Vote,
) -> Result<Vec<Vote>, CallError> {
    let concerned = policies.named().iter().filter(|named| numbers[named.subject] > 0);
    let entries: Vec<_> =
        concerned.map(|named| (&named.policy, reply.next(&named.policy))).collect();
    let now = reply.now();
    entries.into_iter().map(|(policy, entry)| Ok(vote(policy, entry?, now))).collect()
}

/// What a policy says, by the state that the call left.
fn vote(policy: &Policy, entry: Entry, now: Micros, cost: u64) -> Vote {
    let Entry { outcome, left, own, blocked_until } = entry;
    let changes_at = own.as_ref().map(|(_, ends)| *ends);
    let policy = own.as_ref().map_or(policy, |(own, _)| own);
    let standings = match left {
        Left::State(state) => policy.standings(&state, now, cost, outcome),
        Left::Told(standings) => standings.into(),
    };
    Vote { outcome, blocked_until, changes_at, standings }
}
