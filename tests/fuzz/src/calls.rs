//! Operations from bytes, and their numbers for the WebAssembly module.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use tollgate::algorithm::{ChargeRecord, PermitRequest};
use tollgate::policy::execute::Execution;
use tollgate::policy::operation::{
    Charge, HoldId, NewHold, Operation, RepeatableCall, ScheduledReservations,
};
use tollgate::policy::units::Units;

use crate::policies::{PolicyNumbers, SetNumbers, length, units};

/// The codes of operations: see `scripts/protocol.mjs`.
mod codes {
    pub(super) const TAKE: u8 = 1;
    pub(super) const TAKE_UP_TO: u8 = 2;
    pub(super) const PENALIZE: u8 = 3;
    pub(super) const REFUND: u8 = 4;
    pub(super) const RESET: u8 = 5;
    pub(super) const BLOCK: u8 = 6;
    pub(super) const UNBLOCK: u8 = 7;
    pub(super) const OVERRIDE: u8 = 8;
    pub(super) const CLEAR_OVERRIDE: u8 = 9;
    pub(super) const RESERVE: u8 = 10;
    pub(super) const SETTLE: u8 = 11;
    pub(super) const SCHEDULE: u8 = 12;
    pub(super) const CANCEL_SCHEDULED: u8 = 13;
    pub(super) const PEEK: u8 = 14;
    pub(super) const EXTEND: u8 = 15;
    pub(super) const RENEW: u8 = 16;
    pub(super) const ACQUIRE: u8 = 17;
    pub(super) const RELEASE: u8 = 18;
    pub(super) const RENEW_PERMIT: u8 = 19;
    pub(super) const METERED: u8 = 64;
    pub(super) const REPEATABLE: u8 = 128;
}

/// The keys of a call, by key dimension.
pub(crate) type Keys = Vec<Option<usize>>;

/// A call that has charged units.
#[derive(Debug)]
struct Charged {
    keys: Keys,
    units: Units,
    records: Vec<ChargeRecord>,
    hold: Option<HoldId>,
}

/// The earlier calls to which later ones refer.
#[derive(Debug, Default)]
pub(crate) struct History {
    charged: Vec<Charged>,
    scheduled: Vec<(Keys, ScheduledReservations)>,
    holds: u8,
    permits: u64,
}

/// An operation.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    /// `None` if any keys will do.
    pub(crate) keys: Option<Keys>,
    /// The policies of an override.
    pub(crate) overrides: Vec<Option<PolicyNumbers>>,
}

/// Any operation without earlier calls.
pub(crate) fn any_operation(input: &mut Unstructured<'_>, set: &SetNumbers) -> Result<Operation> {
    Ok(History::default().call(input, set, true)?.operation)
}

impl History {
    /// The next operation. Blocks and overrides occur if `has_ends`.
    pub(crate) fn call(
        &mut self,
        input: &mut Unstructured<'_>,
        set: &SetNumbers,
        has_ends: bool,
    ) -> Result<Call> {
        let kind = input.int_in_range(0..=23)?;
        let own = |operation| Ok(Call { operation, keys: None, overrides: Vec::new() });
        match kind {
            0 if has_ends => return own(Operation::Block { lasting: length(input)? }),
            1 if has_ends => return own(Operation::Unblock),
            2 if has_ends => {
                let overrides = overrides(input, set)?;
                let policy = |own: &Option<PolicyNumbers>| {
                    own.as_ref().map(|own| Arc::new(own.policy.clone()))
                };
                let policies = overrides.iter().map(policy).collect();
                let operation = Operation::Override { policies, lasting: length(input)? };
                return Ok(Call { operation, keys: None, overrides });
            }
            3 if has_ends => return own(Operation::ClearOverride),
            4 => return own(Operation::Peek { cost: any_units(input, set, true)? }),
            5 => return own(Operation::Reset),
            _ => {}
        }
        if set.has_permits() {
            let on_hold = input.ratio(1, 3)?;
            return if on_hold {
                self.on_hold(input)
            } else {
                own(self.permit_operation(input, set)?)
            };
        }
        match kind {
            6 | 7 => own(Operation::TakeUpTo { units: units(input)? }),
            8 => own(Operation::Penalize { units: any_units(input, set, false)? }),
            9 | 10 => self.refund(input),
            11 | 12 => {
                self.holds = self.holds.wrapping_add(1);
                let (hold, lasting) = ([self.holds; 16], length(input)?);
                let cost = any_units(input, set, false)?;
                own(if input.ratio(1, 3)? {
                    repeatable(input, cost, Some((hold, lasting)), None)?
                } else {
                    Operation::Reserve { cost, hold, lasting }
                })
            }
            13..=15 => self.on_hold(input),
            16 | 17 if set.can_schedule() => {
                let max_wait = if input.ratio(1, 4)? { 0 } else { length(input)? };
                own(Operation::Schedule { cost: any_units(input, set, false)?, max_wait })
            }
            18 if set.can_schedule() => match pick(&self.scheduled, input)? {
                Some((keys, scheduled)) => {
                    let scheduled = scheduled.clone();
                    on(Operation::CancelScheduled { scheduled }, keys)
                }
                None => without_history(1),
            },
            22.. => own(Operation::Take { cost: 1.into() }),
            19 => {
                let cost = any_units(input, set, false)?;
                own(repeatable(input, cost, None, None)?)
            }
            _ => own(Operation::Take { cost: any_units(input, set, false)? }),
        }
    }

    fn permit_operation(
        &mut self,
        input: &mut Unstructured<'_>,
        set: &SetNumbers,
    ) -> Result<Operation> {
        let permit = 1 + input.int_in_range(0..=self.permits.min(6))?;
        Ok(match input.int_in_range(0..=9)? {
            0 | 1 => Operation::Release { permit },
            2 => Operation::RenewPermit { permit },
            kind => {
                let id = if kind == 3 {
                    permit
                } else {
                    self.permits += 1;
                    self.permits
                };
                let waited = if input.arbitrary()? { Some(length(input)? - 1) } else { None };
                let cost = any_units(input, set, false)?;
                let hold = if input.arbitrary()? {
                    self.holds = self.holds.wrapping_add(1);
                    let mut hold = [self.holds; 16];
                    hold[8..].copy_from_slice(&id.to_be_bytes());
                    Some(NewHold { id: hold, lasting: length(input)? })
                } else {
                    None
                };
                let request = PermitRequest { id, waited };
                match hold {
                    Some(NewHold { id, lasting }) if kind == 9 => {
                        repeatable(input, cost, Some((id, lasting)), Some(request))?
                    }
                    hold => Operation::Acquire { cost, request, hold },
                }
            }
        })
    }

    fn refund(&self, input: &mut Unstructured<'_>) -> Result<Call> {
        let units = units(input)?;
        match pick(&self.charged, input)? {
            Some(call) => {
                let units = like(&call.units, |own| own.min(units), units);
                on(Operation::Refund { units, taken: call.records.clone() }, &call.keys)
            }
            None => without_history(units),
        }
    }

    /// Settles, renews or extends a hold, which may have expired or been settled.
    fn on_hold(&self, input: &mut Unstructured<'_>) -> Result<Call> {
        let held: Vec<_> = self.charged.iter().filter(|call| call.hold.is_some()).collect();
        let (cost, lasting) = (units(input)?, length(input)?);
        let Some(Charged { keys, units, hold: Some(hold), .. }) = pick(&held, input)? else {
            return without_history(cost);
        };
        let hold = *hold;
        let operation = match input.int_in_range(0..=3)? {
            0 => Operation::Renew { hold, lasting },
            1 => Operation::Extend { hold, cost: like(units, |own| own.min(cost), cost), lasting },
            _ => {
                let own = held.iter().filter(|call| call.hold == Some(hold));
                let charge = |call: &&Charged| Charge {
                    units: call.units.clone(),
                    taken: call.records.clone(),
                };
                let mut charges: Vec<_> = own.map(charge).collect();
                // A settlement has few charges: `executeOnHold` passes them in 192 doubles.
                charges.truncate(input.int_in_range(1..=4)?);
                let actual = like(units, |own| (2 * own).min(cost - 1), cost - 1);
                Operation::Settle { hold, actual, charges }
            }
        };
        on(operation, keys)
    }

    /// Remembers an operation that has charged units.
    pub(crate) fn add(
        &mut self,
        set: &SetNumbers,
        keys: &Keys,
        operation: &Operation,
        executed: &Execution,
    ) {
        let (hold, cost) = match operation {
            Operation::Reserve { hold, cost, .. } | Operation::Extend { hold, cost, .. } => {
                (Some(*hold), cost)
            }
            Operation::Acquire { hold: Some(hold), cost, .. } => (Some(hold.id), cost),
            Operation::Take { cost } => (None, cost),
            Operation::Repeatable(call) => match executed.first() {
                Some(first) => (first.hold.map(|(hold, _)| hold), &first.units),
                None => (call.hold.map(|(hold, _)| hold), &call.cost),
            },
            Operation::TakeUpTo { .. } => (None, &Units::Same(executed.units)),
            Operation::Schedule { .. } => {
                if !executed.scheduled.is_empty() {
                    self.scheduled.push((keys.clone(), executed.scheduled.clone()));
                }
                return;
            }
            _ => return,
        };
        if executed.units > 0 {
            let (units, records) = (cost.clone(), records(set, executed, cost));
            self.charged.push(Charged { keys: keys.clone(), units, records, hold });
        }
    }
}

/// An operation on the keys of an earlier call.
fn on(operation: Operation, keys: &Keys) -> Result<Call> {
    Ok(Call { operation, keys: Some(keys.clone()), overrides: Vec::new() })
}

/// A take, while there is no earlier call to refer to.
fn without_history(cost: u64) -> Result<Call> {
    Ok(Call { operation: Operation::Take { cost: cost.into() }, keys: None, overrides: Vec::new() })
}

/// Units: often by policy, and then 0 for some of them.
/// A call with one of a few identifiers.
fn repeatable(
    input: &mut Unstructured<'_>,
    cost: Units,
    hold: Option<(HoldId, u64)>,
    request: Option<PermitRequest>,
) -> Result<Operation> {
    let id = *input.choose(&["a", "b", "call-12", "a call with more bytes"])?;
    let (id, lasting) = (id.as_bytes().into(), length(input)?);
    Ok(Operation::Repeatable(Box::new(RepeatableCall { id, lasting, cost, hold, request })))
}

fn any_units(input: &mut Unstructured<'_>, set: &SetNumbers, may_be_zero: bool) -> Result<Units> {
    if input.ratio(2, 3)? {
        return Ok((units(input)? - u64::from(may_be_zero)).into());
    }
    let mut own = Vec::new();
    for _ in &set.policies {
        own.push(if input.ratio(1, 3)? { 0 } else { units(input)? });
    }
    Ok(own.into())
}

/// Units with as many numbers as others: from each of theirs, or the single one.
fn like(others: &Units, own: impl Fn(u64) -> u64, single: u64) -> Units {
    match others {
        Units::Same(_) => single.into(),
        Units::ByPolicy(numbers) => numbers.iter().copied().map(own).collect::<Vec<_>>().into(),
    }
}

/// One of the latest.
fn pick<'a, T>(all: &'a [T], input: &mut Unstructured<'_>) -> Result<Option<&'a T>> {
    let back = usize::from(input.int_in_range(0..=7_u8)?);
    Ok(all.iter().rev().nth(back).or(all.last()))
}

/// The charge of a decision by policy, as `ts/api/limiter.ts` computes it.
fn records(set: &SetNumbers, executed: &Execution, cost: &Units) -> Vec<ChargeRecord> {
    use tollgate::policy::decision::Status;
    let decision = &executed.response.decision;
    let is_allowed = matches!(decision.status, Status::Allowed | Status::AllowedLast);
    let used = |limit: u64, capacity: u64, remaining: u64| match remaining {
        0 => limit.min(capacity),
        remaining => capacity - remaining,
    };
    let limits = match &executed.response.limits {
        None => {
            let mark = if is_allowed { decision.retry_after_ms } else { 0 };
            let used = used(decision.limit, decision.capacity, decision.remaining);
            vec![(decision.reset_after_ms, mark, used)]
        }
        Some(several) => several
            .limits
            .iter()
            .map(|one| (one.reset_after_ms, one.mark, used(one.limit, one.capacity, one.remaining)))
            .collect(),
    };
    let mut limits = limits.into_iter();
    let record = |(number, own): (usize, &PolicyNumbers)| {
        use tollgate::algorithm::Algorithm as _;
        let of_policy = limits.by_ref().take(own.policy.named_limits().max(1));
        let (reset_after_ms, mark, used) = of_policy.max().unwrap_or_default();
        let reset_at = (decision.at + reset_after_ms * 1_000).min(tollgate::time::MAX_SAFE);
        let cost = cost.of(number);
        ChargeRecord { at: decision.at, reset_at, mark, cost, used, kept: 0 }
    };
    set.policies.iter().enumerate().map(record).collect()
}

fn overrides(input: &mut Unstructured<'_>, set: &SetNumbers) -> Result<Vec<Option<PolicyNumbers>>> {
    let mut policies = Vec::new();
    for own in &set.policies {
        policies.push(if input.ratio(2, 3)? { own.renumbered(input)? } else { None });
    }
    Ok(policies)
}

/// The code of an operation and its numbers, as `numbersOf` in `ts/backends/operation.ts` writes them.
pub(crate) fn numbers_of(operation: &Operation, policies: usize) -> (u8, Vec<f64>) {
    // Units, after the number of policies if they are by policy.
    let first = |units: &Units| {
        let count = units.is_by_policy().then_some(policies as u64);
        [count.as_slice(), units.numbers()].concat()
    };
    let metered =
        |code: u8, units: &Units| code + if units.is_by_policy() { codes::METERED } else { 0 };
    let (code, numbers) = match operation {
        Operation::Take { cost } => (metered(codes::TAKE, cost), first(cost)),
        Operation::Repeatable(call) => {
            let RepeatableCall { id, lasting, cost, hold, request } = &**call;
            let cost = cost.clone();
            let (code, numbers) = match (*hold, *request) {
                (None, _) => numbers_of(&Operation::Take { cost }, policies),
                (Some((hold, lasting)), None) => {
                    numbers_of(&Operation::Reserve { cost, hold, lasting }, policies)
                }
                (Some((id, lasting)), Some(request)) => {
                    let hold = Some(NewHold { id, lasting });
                    numbers_of(&Operation::Acquire { cost, request, hold }, policies)
                }
            };
            let group =
                |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            let mut own = vec![id.len() as u64];
            own.extend(id.chunks(6).map(group));
            own.push(*lasting);
            let own = own.into_iter().map(|number| number as f64);
            return (code + codes::REPEATABLE, own.chain(numbers).collect());
        }
        Operation::TakeUpTo { units } => (codes::TAKE_UP_TO, vec![*units]),
        Operation::Penalize { units } => (metered(codes::PENALIZE, units), first(units)),
        Operation::Peek { cost } => (metered(codes::PEEK, cost), first(cost)),
        Operation::Reset => (codes::RESET, vec![0]),
        Operation::Block { lasting } => (codes::BLOCK, vec![*lasting]),
        Operation::Unblock => (codes::UNBLOCK, vec![0]),
        Operation::ClearOverride => (codes::CLEAR_OVERRIDE, vec![0]),
        Operation::Override { lasting, .. } => (codes::OVERRIDE, vec![*lasting]),
        Operation::Release { permit } => (codes::RELEASE, vec![*permit]),
        Operation::RenewPermit { permit } => (codes::RENEW_PERMIT, vec![*permit]),
        Operation::Schedule { cost, max_wait } => {
            (metered(codes::SCHEDULE, cost), [first(cost), vec![*max_wait]].concat())
        }
        Operation::Refund { units, taken } => {
            let records = || taken.iter().take(units.numbers().len());
            let costs = records().map(|record| record.cost).collect();
            let kept = records().map(|record| record.kept).collect();
            let numbers = [first(units), costs, kept, record_numbers(taken)].concat();
            (metered(codes::REFUND, units), numbers)
        }
        Operation::Reserve { cost, hold, lasting } => {
            on_hold(metered(codes::RESERVE, cost), hold, &[first(cost), vec![*lasting]].concat())
        }
        Operation::Extend { hold, cost, lasting } => {
            on_hold(metered(codes::EXTEND, cost), hold, &[first(cost), vec![*lasting]].concat())
        }
        Operation::Renew { hold, lasting } => on_hold(codes::RENEW, hold, &[*lasting]),
        Operation::Settle { hold, actual, charges } => {
            let mut numbers = first(actual);
            numbers.push(policies as u64);
            for charge in charges {
                numbers.extend(charge.units.numbers());
                numbers.extend(record_numbers(&charge.taken));
            }
            on_hold(metered(codes::SETTLE, actual), hold, &numbers)
        }
        Operation::CancelScheduled { scheduled } => {
            let numbers = scheduled.iter().flat_map(|one| match one {
                Some(one) => one.to_numbers(),
                None => [0; tollgate::algorithm::SCHEDULED_RESERVATION_LENGTH],
            });
            (codes::CANCEL_SCHEDULED, numbers.collect())
        }
        Operation::Acquire { cost, request, hold } => {
            let waited = request.waited.map_or(-1.0, |waited| waited as f64);
            let cost_numbers = first(cost).into_iter().map(|number| number as f64);
            let hold = hold.iter().flat_map(|NewHold { id, lasting }| {
                let id = id.iter().map(|byte| f64::from(*byte));
                id.chain([*lasting as f64])
            });
            let numbers = cost_numbers.chain([request.id as f64, waited]).chain(hold).collect();
            return (metered(codes::ACQUIRE, cost), numbers);
        }
    };
    (code, numbers.into_iter().map(|number| number as f64).collect())
}

fn record_numbers(taken: &[ChargeRecord]) -> Vec<u64> {
    let at = taken.first().map_or(0, |record| record.at);
    let numbers = |record: &ChargeRecord| [record.reset_at, record.mark, record.used];
    [at].into_iter().chain(taken.iter().flat_map(numbers)).collect()
}

fn on_hold(code: u8, hold: &HoldId, numbers: &[u64]) -> (u8, Vec<u64>) {
    let hold = hold.iter().map(|byte| u64::from(*byte));
    (code, hold.chain(numbers.iter().copied()).collect())
}
