//! Decodes the responses to a batch's calls from a script's reply.

use crate::algorithm::{
    Algorithm as _, Outcome, Preview, RateState, SCHEDULED_RESERVATION_LENGTH, ScheduledReservation,
};
use crate::policy::decision;
use crate::policy::execute::Execution;
use crate::policy::multi_policy::{PolicyOutcome, Response};
use crate::policy::operation::{Operation, ScheduledReservations};
use crate::policy::policy_set::PolicySet;
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
                let outcomes = policy_outcomes(policies, numbers, reply, *cost)?;
                let now = reply.now();
                let takes = outcomes
                    .iter()
                    .all(|one| one.outcome == Outcome::Admitted && one.blocked_until <= now);
                let response = Response::of_policies(policies, &outcomes, now, *cost);
                Ok(Execution::new(response, if takes { *cost } else { 0 }))
            }
            (CallRequest::Other(operation), _) => {
                decode_operation(policies, numbers, reply, operation)
            }
        })
    }
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
    Ok(Execution::new(Response::of_policies(policies, &[outcome], now, cost), units))
}

fn decode_operation(
    policies: &PolicySet,
    numbers: &[u16],
    reply: &mut ReplyReader<'_>,
    operation: &Operation,
) -> Result<Execution, CallError> {
    if let Operation::Peek { cost } = *operation {
        return Ok(Execution::new(decode_peek(policies, numbers, reply, cost)?, 0));
    }
    if let Operation::Schedule { cost, .. } = *operation {
        return decode_scheduled_reservation(policies, numbers, reply, cost);
    }
    let [units] = reply.numbers()?;
    let held = match operation {
        Operation::Extend { .. } | Operation::Settle { .. } => Some(reply.numbers::<1>()?[0]),
        _ => None,
    };
    let cost = match *operation {
        // If nothing was granted, report what a one-unit take would report.
        Operation::TakeUpTo { .. } => Some(units.max(1)),
        Operation::Reserve { cost, .. } | Operation::Acquire { cost, .. } => Some(cost),
        Operation::Extend { cost, .. } if held > Some(0) => Some(cost),
        _ => None,
    };
    if let Some(cost) = cost {
        let outcomes = policy_outcomes(policies, numbers, reply, cost)?;
        let response = Response::of_policies(policies, &outcomes, reply.now(), cost);
        return Ok(Execution { held, ..Execution::new(response, units) });
    }
    Ok(Execution { held, ..Execution::new(decode_peek(policies, numbers, reply, 0)?, units) })
}

/// Decodes a scheduled reservation. The script replies with the microseconds until the slot plus 1,
/// or 0 if there is no slot, and with the states before the call.
fn decode_scheduled_reservation(
    policies: &PolicySet,
    numbers: &[u16],
    reply: &mut ReplyReader<'_>,
    cost: u64,
) -> Result<Execution, CallError> {
    let [wait_plus_1] = reply.numbers()?;
    let wait = wait_plus_1.checked_sub(1);
    let named = policies.named().iter();
    let applicable: Vec<_> = named.map(|named| numbers[named.key_dimension] > 0).collect();
    let mut befores = Vec::new();
    for _ in applicable.iter().filter(|&&applies| applies && wait.is_some()) {
        let before = reply.numbers::<{ SCHEDULED_RESERVATION_LENGTH / 2 }>()?;
        befores.push(RateState::from_numbers(&before).ok_or(CallError::Malformed)?);
    }
    let mut afters = Vec::new();
    let outcomes = each_policy(policies, numbers, reply, |policy, entry, now| {
        afters.push(entry.state.clone());
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
    let response = Response::of_policies(policies, &outcomes, reply.now(), cost);
    Ok(Execution { response, units: wait.unwrap_or(0), held: None, scheduled })
}

/// Decodes what a take of `cost` units would report.
fn decode_peek(
    policies: &PolicySet,
    numbers: &[u16],
    reply: &mut ReplyReader<'_>,
    cost: u64,
) -> Result<Response, CallError> {
    let mut takes_last = false;
    let preview = |policy: &Policy, entry: PolicyReply, now| {
        let PolicyReply { outcome, state, policy_override, blocked_until, ban_step, mark } = entry;
        let (by, changes_at) = in_force(policy, policy_override.as_ref());
        let mut preview = match state {
            ReplyState::State(state) => by.preview(&state, now, cost),
            ReplyState::Statuses(statuses) => Preview::at(statuses.into(), cost, outcome),
        };
        let mark = if preview.outcome == Outcome::Admitted { mark } else { 0 };
        preview.statuses.iter_mut().for_each(|status| status.mark = mark);
        takes_last |= preview.takes_last;
        let Preview { outcome, statuses, .. } = preview;
        PolicyOutcome { outcome, blocked_until, ban_step, changes_at, statuses }
    };
    let outcomes = each_policy(policies, numbers, reply, preview)?;
    Ok(Response::of_policies(policies, &outcomes, reply.now(), cost).with_takes_last(takes_last))
}

/// The outcomes of the policies that apply to a call, computed from the states after it.
fn policy_outcomes(
    policies: &PolicySet,
    numbers: &[u16],
    reply: &mut ReplyReader<'_>,
    cost: u64,
) -> Result<Vec<PolicyOutcome>, CallError> {
    each_policy(policies, numbers, reply, |policy, entry, now| {
        to_policy_outcome(policy, entry, now, cost)
    })
}

/// Reads the replies of all policies that apply to a call. It reads all of them even if one fails,
/// so that the reader reaches the next call.
fn each_policy(
    policies: &PolicySet,
    numbers: &[u16],
    reply: &mut ReplyReader<'_>,
    mut outcome: impl FnMut(&Policy, PolicyReply, Micros) -> PolicyOutcome,
) -> Result<Vec<PolicyOutcome>, CallError> {
    let applicable = policies.named().iter().filter(|named| numbers[named.key_dimension] > 0);
    let entries: Vec<_> =
        applicable.map(|named| (&named.policy, reply.next(&named.policy))).collect();
    let now = reply.now();
    entries.into_iter().map(|(policy, entry)| Ok(outcome(policy, entry?, now))).collect()
}

/// The outcome of a policy, computed from the state after the call.
fn to_policy_outcome(policy: &Policy, entry: PolicyReply, now: Micros, cost: u64) -> PolicyOutcome {
    let PolicyReply { outcome, state, policy_override, blocked_until, ban_step, mark } = entry;
    let (by, changes_at) = in_force(policy, policy_override.as_ref());
    let mut statuses = match state {
        ReplyState::State(state) => by.limit_statuses(&state, now, cost, outcome),
        ReplyState::Statuses(statuses) => statuses.into(),
    };
    statuses.iter_mut().for_each(|status| status.mark = mark);
    PolicyOutcome { outcome, blocked_until, ban_step, changes_at, statuses }
}

/// The policy in force, and the end of the override if it is one.
fn in_force<'a>(
    own: &'a Policy,
    policy_override: Option<&'a (Box<Policy>, Micros)>,
) -> (&'a Policy, Option<Micros>) {
    policy_override.map_or((own, None), |(by, ends)| (by, Some(*ends)))
}
