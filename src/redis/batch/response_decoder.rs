//! Decodes the responses to a batch's calls from a script's reply.

use crate::algorithm::{
    Algorithm as _, Outcome, Preview, RateState, SCHEDULED_RESERVATION_LENGTH, ScheduledReservation,
};
use crate::policy::decision;
use crate::policy::execute::{Execution, FirstCall, MoreUnits, SettledUnits};
use crate::policy::multi_policy::{PolicyOutcome, Response};
use crate::policy::operation::{HoldId, Operation, RepeatableCall, ScheduledReservations};
use crate::policy::owed::Owed;
use crate::policy::policy_set::{NamedPolicy, PolicySet};
use crate::policy::units::Units;
use crate::policy::{Policy, State};
use crate::redis::batch::call_batch::CallBatch;
use crate::redis::codec::ReplyState;
use crate::redis::codec::reply::{CallError, PolicyReply, ReplyReader};
use crate::redis::codec::request::CallRequest;
use crate::time::Micros;

impl CallBatch {
    /// Decodes the results of the calls, from the reader's position on.
    pub fn executions<'a>(
        &'a self,
        policies: &'a PolicySet,
        reply: &'a mut ReplyReader<'_>,
    ) -> impl Iterator<Item = Result<Execution, CallError>> + 'a {
        let alone = policies.alone();
        self.calls().map(move |(call, numbers)| match (call, alone) {
            (CallRequest::Take(cost), Some(policy)) => {
                decode_single_take(policies, policy, reply, *cost)
            }
            (CallRequest::Take(cost), None) => {
                decode_take(policies, numbers, reply, &Units::Same(*cost))
            }
            (CallRequest::Other(operation), _) => {
                decode_operation(policies, numbers, reply, operation)
            }
        })
    }
}

/// Decodes a take under any policies.
fn decode_take(
    policies: &PolicySet,
    numbers: &[u16],
    reply: &mut ReplyReader<'_>,
    cost: &Units,
) -> Result<Execution, CallError> {
    let outcomes = policy_outcomes(policies, numbers, reply, cost)?;
    let now = reply.now();
    let takes =
        outcomes.iter().all(|one| one.outcome == Outcome::Admitted && one.blocked_until <= now);
    let response = Response::of_policies(policies, &outcomes, now);
    Ok(Execution::new(response, cost.if_charged(takes)))
}

/// Decodes a take under a single policy, by far the most frequent call.
fn decode_single_take(
    policies: &PolicySet,
    policy: &Policy,
    reply: &mut ReplyReader<'_>,
    cost: u64,
) -> Result<Execution, CallError> {
    let (entry, now) = (reply.next(policy)?, reply.now());
    let takes = entry.outcome == Outcome::Admitted && entry.blocked_until <= now;
    let units = if takes { cost } else { 0 };
    if let (
        PolicyReply {
            state: ReplyState::State(state),
            policy_override: None,
            blocked_until: 0,
            owed: Owed { units: 0, .. },
            mark: 0,
            outcome,
            ..
        },
        0,
    ) = (&entry, policies.named_limits())
    {
        let response = decision::to_decision(policy, state, now, cost, *outcome).into();
        return Ok(Execution::new(response, units));
    }
    let outcome = to_policy_outcome(policy, entry, now, cost);
    Ok(Execution::new(Response::of_policies(policies, &[outcome], now), units))
}

fn decode_operation(
    policies: &PolicySet,
    numbers: &[u16],
    reply: &mut ReplyReader<'_>,
    operation: &Operation,
) -> Result<Execution, CallError> {
    match operation {
        Operation::Take { cost } => return decode_take(policies, numbers, reply, cost),
        Operation::Peek { cost } => {
            return Ok(Execution::new(decode_peek(policies, numbers, reply, cost)?, 0));
        }
        Operation::Schedule { cost, .. } => {
            return decode_scheduled_reservation(policies, numbers, reply, cost);
        }
        Operation::Repeatable(call) => return decode_repeatable(policies, numbers, reply, call),
        _ => {}
    }
    let [units] = reply.numbers()?;
    let moved = match operation {
        Operation::Refund { units, .. }
        | Operation::Penalize { units }
        | Operation::Settle { actual: units, .. }
            if units.is_by_policy() =>
        {
            let moved = policies.named().iter().map(|_| Ok(reply.numbers::<1>()?[0]));
            Some(moved.collect::<Result<_, _>>()?)
        }
        _ => None,
    };
    let held = match operation {
        Operation::Extend { cost: units, .. } | Operation::Settle { actual: units, .. } => {
            Some(decode_units(policies, reply, units)?)
        }
        _ => None,
    };
    let settled = match operation {
        Operation::Settle { actual: units, .. } => {
            let owed = decode_units(policies, reply, units)?;
            Some(SettledUnits { owed, is_late: reply.numbers::<1>()? == [1] })
        }
        _ => None,
    };
    let (one_unit, own);
    let cost = match operation {
        // If nothing was granted, report what a one-unit take would report.
        Operation::TakeUpTo { .. } => {
            one_unit = Units::Same(units.max(1));
            Some(&one_unit)
        }
        Operation::Reserve { cost, .. } | Operation::Acquire { cost, .. } => Some(cost),
        Operation::Extend { cost, .. } => {
            own = policies.without_permits(cost);
            Some(&own).filter(|_| held.as_ref().is_some_and(|held| !held.is_zero()))
        }
        _ => None,
    };
    let response = match cost {
        Some(cost) => {
            let outcomes = policy_outcomes(policies, numbers, reply, cost)?;
            Response::of_policies(policies, &outcomes, reply.now())
        }
        None => decode_peek(policies, numbers, reply, &Units::NONE)?,
    };
    Ok(Execution::new(response, units).with_more(MoreUnits { moved, held, settled, first: None }))
}

/// The script's reply to a repeated call that cannot get its permit again, instead of the time of the
/// first call.
const REFUSED_AGAIN: u64 = 1;

/// Decodes a call that may be repeated. The script replies with the time of the first call, or 0 if this
/// one is the first; if not, with the units of that call and, for a reservation or a permit, the end and
/// the identifier of its hold. After [`REFUSED_AGAIN`] only the units follow.
fn decode_repeatable(
    policies: &PolicySet,
    numbers: &[u16],
    reply: &mut ReplyReader<'_>,
    call: &RepeatableCall,
) -> Result<Execution, CallError> {
    let [first_at] = reply.numbers()?;
    if first_at == 0 {
        return decode_take(policies, numbers, reply, &call.cost);
    }
    let units = decode_units(policies, reply, &call.cost)?;
    if first_at == REFUSED_AGAIN {
        let outcomes = policy_outcomes(policies, numbers, reply, &policies.only_permits(&units))?;
        return Ok(Execution::new(Response::of_policies(policies, &outcomes, reply.now()), 0));
    }
    let hold = match call.hold {
        None => None,
        Some(_) => {
            let [end, parts @ ..] = reply.numbers::<5>()?;
            let mut id = HoldId::default();
            for (bytes, part) in id.as_chunks_mut().0.iter_mut().zip(parts) {
                *bytes = u32::try_from(part).map_err(|_| CallError::Malformed)?.to_be_bytes();
            }
            Some((id, end))
        }
    };
    let now = reply.now();
    reply.set_time(first_at);
    let outcomes = policy_outcomes(policies, numbers, reply, &units);
    reply.set_time(now);
    let response = Response::of_policies(policies, &outcomes?, first_at);
    Ok(Execution::repeating(response, FirstCall { units, hold, repeated_at: now }))
}

/// Decodes as many numbers of units as an operation has.
fn decode_units(
    policies: &PolicySet,
    reply: &mut ReplyReader<'_>,
    like: &Units,
) -> Result<Units, CallError> {
    let mut number = || Ok(reply.numbers::<1>()?[0]);
    Ok(match like {
        Units::Same(_) => Units::Same(number()?),
        Units::ByPolicy(_) => {
            let numbers: Result<_, _> = policies.named().iter().map(|_| number()).collect();
            Units::ByPolicy(numbers?)
        }
    })
}

/// Decodes a scheduled reservation. The script replies with the microseconds until the slot plus 1,
/// or 0 if there is no slot, and with the states before the call of the policies with a cost.
fn decode_scheduled_reservation(
    policies: &PolicySet,
    numbers: &[u16],
    reply: &mut ReplyReader<'_>,
    cost: &Units,
) -> Result<Execution, CallError> {
    let [wait_plus_1] = reply.numbers()?;
    let wait = wait_plus_1.checked_sub(1);
    let named = policies.named().iter().enumerate();
    let applies = |(policy, named): (usize, &NamedPolicy)| {
        numbers[named.key_dimension] > 0 && cost.of(policy) > 0
    };
    let applicable: Vec<_> = named.map(applies).collect();
    let mut befores = Vec::new();
    for _ in applicable.iter().filter(|&&applies| applies && wait.is_some()) {
        let before = reply.numbers::<{ SCHEDULED_RESERVATION_LENGTH / 2 }>()?;
        befores.push(RateState::from_numbers(&before).ok_or(CallError::Malformed)?);
    }
    let mut afters = Vec::new();
    let outcomes = each_policy(policies, numbers, reply, cost, |policy, entry, now, cost| {
        if cost > 0 {
            afters.push(entry.state.clone());
        }
        to_policy_outcome(policy, entry, now, cost)
    })?;
    let mut states = befores.into_iter().zip(afters);
    let mut reservation = |applies: bool| match applies.then(|| states.next()).flatten() {
        Some((before, ReplyState::State(State::Rate(after)))) => {
            Some(ScheduledReservation { before, after })
        }
        _ => None,
    };
    let scheduled = match wait {
        Some(_) => applicable.into_iter().map(&mut reservation).collect(),
        None => ScheduledReservations::new(),
    };
    let response = Response::of_policies(policies, &outcomes, reply.now());
    Ok(Execution { scheduled, ..Execution::new(response, wait.unwrap_or(0)) })
}

/// Decodes what a take of a cost would report.
fn decode_peek(
    policies: &PolicySet,
    numbers: &[u16],
    reply: &mut ReplyReader<'_>,
    cost: &Units,
) -> Result<Response, CallError> {
    let mut takes_last = false;
    let preview = |policy: &Policy, entry: PolicyReply, now, cost| {
        if entry.owed.units > 0 {
            return to_owed_peek(policy, entry, now, cost);
        }
        let PolicyReply { outcome, state, policy_override, blocked_until, ban_step, mark, .. } =
            entry;
        let (by, changes_at) = in_force(policy, policy_override.as_ref());
        let mut preview = match state {
            ReplyState::State(state) => by.preview(&state, now, cost),
            ReplyState::Statuses(statuses) => Preview::at(statuses.into(), cost, outcome),
        };
        let mark = if preview.outcome == Outcome::Admitted { mark } else { 0 };
        preview.statuses.iter_mut().for_each(|status| status.mark = mark);
        takes_last |= preview.takes_last;
        let Preview { outcome, statuses, .. } = preview;
        PolicyOutcome { cost, outcome, blocked_until, ban_step, changes_at, statuses }
    };
    let outcomes = each_policy(policies, numbers, reply, cost, preview)?;
    Ok(Response::of_preview(policies, &outcomes, reply.now(), takes_last))
}

/// The outcomes of the policies that apply to a call, computed from the states after it.
fn policy_outcomes(
    policies: &PolicySet,
    numbers: &[u16],
    reply: &mut ReplyReader<'_>,
    cost: &Units,
) -> Result<Vec<PolicyOutcome>, CallError> {
    each_policy(policies, numbers, reply, cost, to_policy_outcome)
}

/// Reads the replies of all policies that apply to a call, each with its cost. It reads all of them
/// even if one fails, so that the reader reaches the next call.
fn each_policy(
    policies: &PolicySet,
    numbers: &[u16],
    reply: &mut ReplyReader<'_>,
    cost: &Units,
    mut outcome: impl FnMut(&Policy, PolicyReply, Micros, u64) -> PolicyOutcome,
) -> Result<Vec<PolicyOutcome>, CallError> {
    let named = policies.named().iter().enumerate();
    let applicable = named.filter(|(_, named)| numbers[named.key_dimension] > 0);
    let entries: Vec<_> = applicable
        .map(|(policy, named)| (&named.policy, cost.of(policy), reply.next(&named.policy)))
        .collect();
    let now = reply.now();
    entries
        .into_iter()
        .map(|(policy, cost, entry)| Ok(outcome(policy, entry?, now, cost)))
        .collect()
}

/// The outcome of a policy, computed from the state after the call.
fn to_policy_outcome(policy: &Policy, entry: PolicyReply, now: Micros, cost: u64) -> PolicyOutcome {
    let PolicyReply { outcome, state, policy_override, blocked_until, ban_step, owed, mark } =
        entry;
    let (by, changes_at) = in_force(policy, policy_override.as_ref());
    let is_listed = matches!(state, ReplyState::Statuses(_));
    let mut statuses = match state {
        ReplyState::State(state) if owed.units > 0 => owed.statuses(by, &state, now, cost, outcome),
        ReplyState::State(state) => by.limit_statuses(&state, now, cost, outcome),
        ReplyState::Statuses(statuses) => statuses.into(),
    };
    if is_listed && owed.units > 0 {
        owed.delay(by, &mut statuses, cost, outcome);
    }
    statuses.iter_mut().for_each(|status| status.mark = mark);
    PolicyOutcome { cost, outcome, blocked_until, ban_step, changes_at, statuses }
}

/// The outcome of a policy for a peek at a key that owes units: that of a call which is not counted.
fn to_owed_peek(policy: &Policy, entry: PolicyReply, now: Micros, cost: u64) -> PolicyOutcome {
    let (by, _) = in_force(policy, entry.policy_override.as_ref());
    let (outcome, state) = match entry.state {
        ReplyState::State(mut state) => {
            by.normalize(&mut state, now);
            (by.outcome(&state, now, cost), ReplyState::State(state))
        }
        statuses @ ReplyState::Statuses(_) => (entry.outcome, statuses),
    };
    let mark = if outcome == Outcome::Admitted { entry.mark } else { 0 };
    to_policy_outcome(policy, PolicyReply { outcome, state, mark, ..entry }, now, cost)
}

/// The policy in force, and the end of the override if it is one.
fn in_force<'a>(
    own: &'a Policy,
    policy_override: Option<&'a (Box<Policy>, Micros)>,
) -> (&'a Policy, Option<Micros>) {
    policy_override.map_or((own, None), |(by, ends)| (by, Some(*ends)))
}
