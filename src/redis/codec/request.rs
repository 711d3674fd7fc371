//! Encodes the argument of the script that decides calls: one section per batch.
//! `lua/dispatch/batch.lua` and `lua/dispatch/decide.lua` decode it.

use crate::algorithm::{ChargeRecord, MAX_WAIT, PermitRequest, ScheduledReservation};
use crate::policy::Policy;
use crate::policy::ban::BanRule;
use crate::policy::operation::{Charge, HoldId, NewHold, Operation, RepeatableCall};
use crate::policy::owed::OwedLimit;
use crate::policy::policy_set::{NamedPolicy, PolicySet};
use crate::policy::units::Units;
use crate::protocol::{form, operation};
use crate::redis::codec::{ScriptAlgorithm, codec, push_double};
use crate::time::Micros;

#[derive(Debug, Clone)]
pub(crate) enum CallRequest {
    /// A take of this many units, by far the most frequent call.
    Take(u64),
    Other(Box<Operation>),
}

impl From<Operation> for CallRequest {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Take { cost: Units::Same(cost) } => Self::Take(cost),
            other => Self::Other(Box::new(other)),
        }
    }
}

impl CallRequest {
    /// The costs of a take: a single one, or one for each policy. Empty for any other call.
    fn costs(&self) -> &[u64] {
        match self {
            Self::Take(cost) => std::slice::from_ref(cost),
            Self::Other(other) => match &**other {
                Operation::Take { cost } => cost.numbers(),
                _ => &[],
            },
        }
    }

    /// Whether it takes units under all policies.
    pub(crate) fn takes_units(&self) -> bool {
        match self {
            Self::Take(cost) => *cost > 0,
            Self::Other(_) => {
                let costs = self.costs();
                !costs.is_empty() && costs.iter().all(|&cost| cost > 0)
            }
        }
    }

    pub(crate) fn takes_one(&self) -> bool {
        matches!(self, Self::Take(1))
    }

    /// The cost of a take under a policy; 0 for any other call.
    fn cost_under(&self, policy: usize) -> u64 {
        let costs = self.costs();
        costs.get(if costs.len() > 1 { policy } else { 0 }).copied().unwrap_or(0)
    }
}

/// Appends the rule for bans that applies to the next section.
pub(crate) fn push_ban(request: &mut Vec<u8>, rule: &BanRule) {
    request.extend_from_slice(&[form::BAN, byte(1 + 8 * rule.numbers().len()), rule.policies()]);
    rule.numbers().iter().for_each(|&number| push_double(request, number));
}

/// The position of the first section's form, after its rule for bans if there is one.
#[cfg(feature = "redis")]
pub(crate) fn first_form(request: &[u8]) -> usize {
    match request {
        [form::BAN, size, ..] => 2 + usize::from(*size),
        _ => 0,
    }
}

/// Whether a batch has the form of calls for permits, which the script has a fast path for.
pub(crate) fn are_for_permits(policies: &PolicySet, calls: &[CallRequest]) -> bool {
    let is_for_permits = |call: &CallRequest| {
        let has_hold = matches!(
            call,
            CallRequest::Other(other) if matches!(**other, Operation::Acquire { hold: Some(_), .. })
        );
        let code = operation_code(call);
        !has_hold
            && matches!(code, operation::ACQUIRE | operation::RELEASE | operation::RENEW_PERMIT)
    };
    matches!(policies.alone(), Some(Policy::Concurrency(_))) && calls.iter().all(is_for_permits)
}

/// Appends the head of a general section: its counts, and the policies with their times around
/// `estimated_now`. `keys` returns the number of keys of a dimension. If `calls` is 0, no calls
/// follow: the n-th call takes one unit from the n-th key of each dimension. `holds` is the number
/// of hold keys, which follow the policies' keys; 0 if the form is not [`form::WITH_HOLDS`].
pub(crate) fn push_general(
    request: &mut Vec<u8>,
    form: u8,
    policies: &PolicySet,
    estimated_now: Micros,
    keys: impl Fn(usize) -> u16,
    (calls, holds): (u16, u16),
) {
    request.push(form);
    if form == form::WITH_HOLDS {
        request.extend_from_slice(&holds.to_be_bytes());
    }
    request.extend_from_slice(&calls.to_be_bytes());
    request.extend_from_slice(&[byte(policies.key_dimensions()), byte(policies.named().len())]);
    for NamedPolicy { policy, key_dimension, .. } in policies.named() {
        request.extend_from_slice(&[codec(policy).algorithm() as u8, byte(*key_dimension)]);
        request.extend_from_slice(&keys(*key_dimension).to_be_bytes());
        push_policy(request, policy, estimated_now);
    }
}

/// Appends a call: its operation, the number of its key in each dimension (from 1; 0 for no key),
/// and the operation's arguments. `hold` is the number of its hold key (from 1; 0 for none). Units by
/// policy are one double for each policy.
pub(crate) fn push_call(
    request: &mut Vec<u8>,
    policies: &PolicySet,
    numbers: &[u16],
    hold: u16,
    call: &CallRequest,
) {
    request.push(operation_code(call));
    for number in numbers {
        request.extend_from_slice(&number.to_be_bytes());
    }
    match call {
        CallRequest::Take(cost) => push_double(request, *cost),
        CallRequest::Other(operation) => push_operation(request, policies, hold, operation),
    }
}

fn operation_code(call: &CallRequest) -> u8 {
    match call {
        CallRequest::Take(_) => operation::TAKE,
        CallRequest::Other(other) => {
            let metered = if other.is_metered() { operation::METERED } else { 0 };
            metered + plain_code(other)
        }
    }
}

/// The code of an operation without [`operation::METERED`], whether or not its units are by policy.
fn plain_code(operation: &Operation) -> u8 {
    match operation {
        // A peek is a take in a script call that writes nothing.
        Operation::Take { .. } | Operation::Peek { .. } => operation::TAKE,
        Operation::Repeatable(call) => operation::REPEATABLE + call.kind(),
        Operation::TakeUpTo { .. } => operation::TAKE_UP_TO,
        Operation::Penalize { .. } => operation::PENALIZE,
        Operation::Refund { .. } => operation::REFUND,
        Operation::Reset => operation::RESET,
        Operation::Block { .. } => operation::BLOCK,
        Operation::Unblock => operation::UNBLOCK,
        Operation::Override { .. } => operation::OVERRIDE,
        Operation::ClearOverride => operation::CLEAR_OVERRIDE,
        Operation::Schedule { .. } => operation::SCHEDULE,
        Operation::CancelScheduled { .. } => operation::CANCEL_SCHEDULED,
        Operation::Reserve { .. } => operation::RESERVE,
        Operation::Extend { .. } => operation::EXTEND,
        Operation::Settle { .. } => operation::SETTLE,
        Operation::Renew { .. } => operation::RENEW,
        Operation::Acquire { .. } => operation::ACQUIRE,
        Operation::Release { .. } => operation::RELEASE,
        Operation::RenewPermit { .. } => operation::RENEW_PERMIT,
    }
}

fn push_operation(
    request: &mut Vec<u8>,
    policies: &PolicySet,
    hold_key: u16,
    operation: &Operation,
) {
    match operation {
        Operation::Take { cost: units } | Operation::Peek { cost: units } => {
            push_units(request, policies, units);
        }
        Operation::Penalize { units } => {
            push_units(request, policies, units);
            push_owed_limits(request, policies, |policy| policies.owed_penalty_limit(policy));
        }
        Operation::TakeUpTo { units } => push_double(request, *units),
        Operation::Refund { units, taken } => {
            let record = |policy| taken.get(policy).copied().unwrap_or_default();
            push_units(request, policies, units);
            push_numbers(request, policies, units, |policy| record(policy).cost);
            push_numbers(request, policies, units, |policy| record(policy).kept);
            push_charge_records(request, policies, taken);
        }
        Operation::Schedule { cost, max_wait } => {
            push_units(request, policies, cost);
            push_double(request, (*max_wait).min(MAX_WAIT));
        }
        Operation::CancelScheduled { scheduled: reservations } => {
            for index in 0..policies.named().len() {
                let reservation = reservations.get(index).and_then(Option::as_ref);
                request.push(byte(reservation.iter().len()));
                let numbers = reservation.into_iter().flat_map(ScheduledReservation::to_numbers);
                numbers.for_each(|number| push_double(request, number));
            }
        }
        Operation::Reserve { cost, hold, lasting } | Operation::Extend { hold, cost, lasting } => {
            push_hold(request, hold_key, hold);
            push_units(request, policies, cost);
            push_double(request, *lasting);
        }
        Operation::Repeatable(call) => {
            let RepeatableCall { id, lasting, cost, hold, request: permit } = &**call;
            request.extend_from_slice(&hold_key.to_be_bytes());
            request.push(byte(id.len()));
            request.extend_from_slice(id);
            push_double(request, *lasting);
            if let Some((hold, _)) = hold {
                request.extend_from_slice(hold);
            }
            push_units(request, policies, cost);
            if let Some((_, lasting)) = hold {
                push_double(request, *lasting);
            }
            // The number of the permit is in the identifier of the hold.
            if let (Some(PermitRequest { waited, .. }), Some(_)) = (permit, hold) {
                push_waited(request, *waited);
            }
        }
        Operation::Renew { hold, lasting } => {
            push_hold(request, hold_key, hold);
            push_double(request, *lasting);
        }
        Operation::Acquire { cost, request: PermitRequest { id, waited }, hold } => {
            push_units(request, policies, cost);
            push_double(request, *id);
            push_waited(request, *waited);
            // The number 0 says that there is no hold.
            if let (Some(NewHold { id, lasting }), 1..) = (hold, hold_key) {
                push_hold(request, hold_key, id);
                push_double(request, *lasting);
            } else {
                request.extend_from_slice(&0_u16.to_be_bytes());
            }
        }
        Operation::Release { permit } | Operation::RenewPermit { permit } => {
            push_double(request, *permit);
        }
        Operation::Settle { hold, actual, charges } => {
            push_hold(request, hold_key, hold);
            push_units(request, policies, actual);
            push_owed_limits(request, policies, |policy| policies.owed_limit(policy));
            // The latest ones; TypeScript keeps fewer.
            let latest = &charges[charges.len().saturating_sub(usize::from(u8::MAX))..];
            request.push(byte(latest.len()));
            for Charge { units, taken } in latest {
                push_numbers(request, policies, actual, |policy| units.of(policy));
                push_charge_records(request, policies, taken);
            }
        }
        Operation::Reset => request.extend_from_slice(&hold_key.to_be_bytes()),
        Operation::Block { lasting } => push_double(request, *lasting),
        Operation::Override { policies: own, lasting } => {
            push_double(request, *lasting);
            for (index, NamedPolicy { policy, .. }) in policies.named().iter().enumerate() {
                let own = own.get(index).and_then(Option::as_deref);
                match own.filter(|own| own.tag() == policy.tag()) {
                    None => request.push(0),
                    Some(own) => push_override(request, own),
                }
            }
        }
        Operation::Unblock | Operation::ClearOverride => {}
    }
}

/// Appends units: one double, or one for each policy.
fn push_units(request: &mut Vec<u8>, policies: &PolicySet, units: &Units) {
    push_numbers(request, policies, units, |policy| units.of(policy));
}

/// Appends the numbers of policies: for each policy if the units are by policy, otherwise that of the
/// first.
fn push_numbers(
    request: &mut Vec<u8>,
    policies: &PolicySet,
    units: &Units,
    number: impl Fn(usize) -> u64,
) {
    let count = if units.is_by_policy() { policies.named().len() } else { 1 };
    (0..count).for_each(|policy| push_double(request, number(policy)));
}

/// Appends how many units may be owed, by policy.
fn push_owed_limits(
    request: &mut Vec<u8>,
    policies: &PolicySet,
    limit_of: impl Fn(usize) -> OwedLimit,
) {
    for policy in 0..policies.named().len() {
        let OwedLimit { max, capacity, period } = limit_of(policy);
        [max, capacity, period].into_iter().for_each(|number| push_double(request, number));
    }
}

/// Appends the time for which a call has waited.
fn push_waited(request: &mut Vec<u8>, waited: Option<Micros>) {
    match waited {
        Some(waited) => push_double(request, waited),
        None => request.extend_from_slice(&(-1_f64).to_be_bytes()),
    }
}

fn push_hold(request: &mut Vec<u8>, hold_key: u16, hold: &HoldId) {
    request.extend_from_slice(&hold_key.to_be_bytes());
    request.extend_from_slice(hold);
}

/// Appends the charge records of an earlier call, by policy. A record of zeros gives nothing back.
fn push_charge_records(request: &mut Vec<u8>, policies: &PolicySet, taken: &[ChargeRecord]) {
    for index in 0..policies.named().len() {
        let ChargeRecord { at, reset_at, mark, used, .. } =
            taken.get(index).copied().unwrap_or_default();
        for number in [at, reset_at, mark, used] {
            push_double(request, number);
        }
    }
}

/// Appends an override, with the number of its doubles.
fn push_override(request: &mut Vec<u8>, policy: &Policy) {
    let mut numbers = Vec::new();
    codec(policy).push_override(&mut numbers);
    request.push(byte(numbers.len() / 8));
    request.extend_from_slice(&numbers);
}

/// Whether the script has a fast path for one take on each key under these policies.
pub(crate) fn has_fast_path(policies: &PolicySet) -> bool {
    use ScriptAlgorithm::{
        FixedWindow, Rate, SlidingCounter, SlidingWindowList, TokenBucketInterval,
    };
    let is_alone = policies.alone().is_some();
    policies.named().iter().all(|named| match codec(&named.policy).algorithm() {
        Rate | FixedWindow | SlidingCounter | TokenBucketInterval => true,
        SlidingWindowList => is_alone,
        _ => false,
    })
}

/// Appends a section of takes with a fast path, one on each key of every policy. `optimistic` says
/// that most calls should be hits. Appends nothing and returns `None` if the policies have no fast
/// path or if some calls are not takes.
pub(crate) fn push_takes(
    request: &mut Vec<u8>,
    policies: &PolicySet,
    estimated_now: Micros,
    calls: &[CallRequest],
    optimistic: bool,
) -> Option<()> {
    let keys = u16::try_from(calls.len()).ok()?;
    let are_units = calls.iter().all(CallRequest::takes_one);
    let are_takes = are_units || calls.iter().all(CallRequest::takes_units);
    if !are_takes || !has_fast_path(policies) {
        return None;
    }
    let is_alone = policies.alone().is_some();
    let are_by_policy = !is_alone && calls.iter().any(|call| call.costs().len() > 1);
    let (optimistic, costs) = if are_units { (optimistic, 0) } else { (false, form::WITH_COSTS) };
    match policies.alone().map(|policy| codec(policy).algorithm()) {
        Some(ScriptAlgorithm::FixedWindow) if optimistic => request.push(form::WINDOW_OPTIMISTIC),
        Some(algorithm) => request.push(form::SINGLE_POLICY + algorithm as u8 + costs),
        None if are_by_policy => request.push(form::MULTI_POLICY_METERED),
        None if optimistic => request.push(form::MULTI_POLICY_OPTIMISTIC),
        None => request.push(form::MULTI_POLICY + costs),
    }
    request.extend_from_slice(&keys.to_be_bytes());
    let push_costs = |request: &mut Vec<u8>, policy| {
        calls.iter().for_each(|call| push_double(request, call.cost_under(policy)));
    };
    if !are_units && !are_by_policy {
        push_costs(request, 0);
    }
    if !is_alone {
        request.push(byte(policies.named().len()));
    }
    for (number, NamedPolicy { policy, .. }) in policies.named().iter().enumerate() {
        if !is_alone {
            request.push(codec(policy).algorithm() as u8);
        }
        if are_by_policy {
            push_costs(request, number);
        }
        push_policy(request, policy, estimated_now);
    }
    Some(())
}

fn push_policy(request: &mut Vec<u8>, policy: &Policy, estimated_now: Micros) {
    let codec = codec(policy);
    codec.push_policy(request);
    codec.push_time(estimated_now, request);
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
