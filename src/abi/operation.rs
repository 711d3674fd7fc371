//! Operations from their numbers in JavaScript.

use std::sync::Arc;

use super::whole;
use crate::algorithm::{
    ChargeRecord, PermitRequest, SCHEDULED_RESERVATION_LENGTH, ScheduledReservation,
};
use crate::policy::Policy;
use crate::policy::operation::{
    Charge, HoldId, MAX_CALL_ID, NewHold, Operation, RepeatableCall, permit_of,
};
use crate::policy::policy_set::MAX_POLICIES;
use crate::policy::units::Units;
use crate::protocol::operation;

/// The numbers of an override, by policy; `None` for a policy that keeps those of its limiter.
pub(crate) type Overrides = Vec<Option<Arc<Policy>>>;

/// The operation of a code and its numbers, which `numbersOf` in `ts/backends/operation.ts` writes;
/// `None` if numbers are missing. Times are whole microseconds.
///
/// If the code has [`METERED`](operation::METERED), units are by policy: the number of policies stands
/// before the first units, and each number of units is replaced by one for each policy.
///
/// If the code has [`REPEATABLE`](operation::REPEATABLE), the identifier and its life stand before all
/// others: the number of bytes, these bytes in groups of six, and the time.
pub(crate) fn read(
    code: u8,
    numbers: &[f64],
    overrides: impl FnOnce() -> Overrides,
) -> Option<Operation> {
    if code > operation::REPEATABLE {
        return repeatable(code - operation::REPEATABLE, numbers);
    }
    if code > operation::METERED {
        return metered(code - operation::METERED, numbers);
    }
    let amount = whole(numbers.first().copied().unwrap_or(0.0));
    Some(match code {
        operation::TAKE => Operation::Take { cost: amount.into() },
        operation::TAKE_UP_TO => Operation::TakeUpTo { units: amount },
        operation::PEEK => Operation::Peek { cost: amount.into() },
        operation::PENALIZE => Operation::Penalize { units: amount.into() },
        operation::RESET => Operation::Reset,
        operation::BLOCK => Operation::Block { lasting: amount },
        operation::UNBLOCK => Operation::Unblock,
        operation::OVERRIDE => Operation::Override { policies: overrides(), lasting: amount },
        operation::CLEAR_OVERRIDE => Operation::ClearOverride,
        operation::RELEASE => Operation::Release { permit: amount },
        operation::RENEW_PERMIT => Operation::RenewPermit { permit: amount },
        operation::REFUND => refund(numbers)?,
        operation::SCHEDULE => {
            let &[_, max_wait] = numbers else { return None };
            Operation::Schedule { cost: amount.into(), max_wait: whole(max_wait) }
        }
        operation::CANCEL_SCHEDULED => cancel_scheduled(numbers),
        operation::ACQUIRE => acquire(numbers)?,
        operation::RESERVE | operation::EXTEND | operation::RENEW | operation::SETTLE => {
            let (hold, numbers) = numbers.split_first_chunk()?;
            on_hold(code, hold_of(hold), numbers)?
        }
        _ => return None,
    })
}

/// The bytes of an identifier in one number.
const ID_BYTES: usize = 6;

/// A take, a reservation or a call for a permit with an identifier.
fn repeatable(code: u8, numbers: &[f64]) -> Option<Operation> {
    let (&length, numbers) = numbers.split_first()?;
    let length =
        usize::try_from(whole(length)).ok().filter(|length| (1..=MAX_CALL_ID).contains(length))?;
    let (groups, numbers) = numbers.split_at_checked(length.div_ceil(ID_BYTES))?;
    let bytes =
        groups.iter().flat_map(|&group| whole(group).to_le_bytes().into_iter().take(ID_BYTES));
    let id = bytes.take(length).collect();
    let (&lasting, numbers) = numbers.split_first()?;
    let lasting = whole(lasting);
    let (cost, hold, request) = match read(code, numbers, Vec::new)? {
        Operation::Take { cost } => (cost, None, None),
        Operation::Reserve { cost, hold, lasting } => (cost, Some((hold, lasting)), None),
        Operation::Acquire { cost, request, hold: Some(NewHold { id, lasting }) }
            if permit_of(&id) == request.id =>
        {
            (cost, Some((id, lasting)), Some(request))
        }
        _ => return None,
    };
    Some(Operation::Repeatable(Box::new(RepeatableCall { id, lasting, cost, hold, request })))
}

/// Refunds units of an earlier call. The numbers are these units, those of that call, those that stay
/// charged, and its charge.
fn refund(numbers: &[f64]) -> Option<Operation> {
    let (&[units, cost, kept], taken) = numbers.split_first_chunk()?;
    let taken = charge_records(taken, &whole(cost).into(), &whole(kept).into());
    Some(Operation::Refund { units: whole(units).into(), taken })
}

/// An operation whose units are by policy.
fn metered(code: u8, numbers: &[f64]) -> Option<Operation> {
    let (hold, numbers) = match code {
        operation::RESERVE | operation::EXTEND | operation::SETTLE => {
            let (hold, numbers) = numbers.split_first_chunk()?;
            (hold_of(hold), numbers)
        }
        _ => (HoldId::default(), numbers),
    };
    let (&policies, mut numbers) = numbers.split_first()?;
    let policies =
        usize::try_from(whole(policies)).ok().filter(|n| (1..=MAX_POLICIES).contains(n))?;
    let cost = take_units(&mut numbers, policies)?;
    Some(match (code, numbers) {
        (operation::TAKE, []) => Operation::Take { cost },
        (operation::PEEK, []) => Operation::Peek { cost },
        (operation::PENALIZE, []) => Operation::Penalize { units: cost },
        (operation::SCHEDULE, &[max_wait]) => {
            Operation::Schedule { cost, max_wait: whole(max_wait) }
        }
        (operation::ACQUIRE, [permit, waited, hold @ ..]) => {
            let request = permit_request(*permit, *waited);
            Operation::Acquire { cost, request, hold: new_hold(hold)? }
        }
        (operation::RESERVE, &[lasting]) => {
            Operation::Reserve { cost, hold, lasting: whole(lasting) }
        }
        (operation::EXTEND, &[lasting]) => {
            Operation::Extend { hold, cost, lasting: whole(lasting) }
        }
        (operation::REFUND, _) => {
            let whole = take_units(&mut numbers, policies)?;
            let kept = take_units(&mut numbers, policies)?;
            Operation::Refund { units: cost, taken: charge_records(numbers, &whole, &kept) }
        }
        (operation::SETTLE, [of_charges, charges @ ..])
            if whole(*of_charges) == policies as u64 =>
        {
            let charge = |mut numbers: &[f64]| {
                let units = take_units(&mut numbers, policies)?;
                let taken = charge_records(numbers, &units, &Units::NONE);
                Some(Charge { units, taken })
            };
            let charges = charges.chunks_exact(1 + 4 * policies).map(charge);
            Operation::Settle { hold, actual: cost, charges: charges.collect::<Option<_>>()? }
        }
        _ => return None,
    })
}

/// Takes units by policy from the front.
fn take_units(numbers: &mut &[f64], policies: usize) -> Option<Units> {
    let (own, rest) = numbers.split_at_checked(policies)?;
    *numbers = rest;
    Some(Units::ByPolicy(own.iter().copied().map(whole).collect()))
}

/// The charge of a call: its time and, by policy, the time at which the key was to be fresh, the mark,
/// and the units that were used after it.
fn charge_records(taken: &[f64], cost: &Units, kept: &Units) -> Vec<ChargeRecord> {
    let (at, policies) = taken.split_first().unwrap_or((&0.0, &[]));
    let record = |(policy, &[reset_at, mark, used]): (usize, &[f64; 3])| ChargeRecord {
        at: whole(*at),
        reset_at: whole(reset_at),
        mark: whole(mark),
        used: whole(used),
        cost: cost.of(policy),
        kept: kept.of(policy),
    };
    policies.as_chunks().0.iter().enumerate().map(record).collect()
}

/// An operation on a hold. A reservation and its extension have the units and the time for which it
/// lasts; a renewal has this time. A settlement has the actual units, the number of policies and, for
/// each charge, its units and the charge.
fn on_hold(code: u8, hold: HoldId, numbers: &[f64]) -> Option<Operation> {
    Some(match (code, numbers) {
        (operation::RESERVE, &[cost, lasting]) => {
            Operation::Reserve { cost: whole(cost).into(), hold, lasting: whole(lasting) }
        }
        (operation::EXTEND, &[cost, lasting]) => {
            Operation::Extend { hold, cost: whole(cost).into(), lasting: whole(lasting) }
        }
        (operation::RENEW, &[lasting]) => Operation::Renew { hold, lasting: whole(lasting) },
        (operation::SETTLE, [actual, policies, charges @ ..]) => {
            let length = 2 + 3 * usize::try_from(whole(*policies)).ok()?;
            let charges = charges.chunks_exact(length).map(charge).collect();
            Operation::Settle { hold, actual: whole(*actual).into(), charges }
        }
        _ => return None,
    })
}

/// A hold's id from its bytes.
fn hold_of(bytes: &[f64; size_of::<HoldId>()]) -> HoldId {
    bytes.map(|byte| u8::try_from(whole(byte)).unwrap_or(0))
}

fn charge(numbers: &[f64]) -> Charge {
    let (units, taken) = numbers.split_first().unwrap_or((&0.0, &[]));
    let units = Units::Same(whole(*units));
    Charge { taken: charge_records(taken, &units, &Units::NONE), units }
}

/// A call for a permit: the units, the permit, and the time for which the call has waited, which is
/// negative if it does not wait; then perhaps a hold.
fn acquire(numbers: &[f64]) -> Option<Operation> {
    let (&[cost, permit, waited], hold) = numbers.split_first_chunk()?;
    let (cost, request) = (whole(cost).into(), permit_request(permit, waited));
    Some(Operation::Acquire { cost, request, hold: new_hold(hold)? })
}

/// A hold with the time for which it lasts, if there are numbers; `None` if some are missing.
fn new_hold(numbers: &[f64]) -> Option<Option<NewHold>> {
    match numbers.split_first_chunk() {
        None => numbers.is_empty().then_some(None),
        Some((id, &[lasting])) => Some(Some(NewHold { id: hold_of(id), lasting: whole(lasting) })),
        Some(_) => None,
    }
}

fn permit_request(permit: f64, waited: f64) -> PermitRequest {
    let waited = (waited >= 0.0).then(|| whole(waited));
    PermitRequest { id: whole(permit), waited }
}

/// Cancels the scheduled reservations of one call. JavaScript keeps them while a caller waits, and does
/// not interpret them.
fn cancel_scheduled(numbers: &[f64]) -> Operation {
    let reservation = |numbers: &[f64]| {
        let numbers: Vec<_> = numbers.iter().copied().map(whole).collect();
        ScheduledReservation::from_numbers(&numbers)
    };
    Operation::CancelScheduled {
        scheduled: numbers.chunks_exact(SCHEDULED_RESERVATION_LENGTH).map(reservation).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::response::scheduled_doubles;
    use crate::algorithm::{Algorithm as _, Gcra, RateBased as _};

    #[test]
    fn scheduled_reservations_survive_the_conversion() {
        let gcra = Gcra::new(7, 1_000_000, 2).unwrap();
        let mut state = gcra.initial_state();
        let reservation = gcra.rate().schedule(&mut state, 5, 2, 1_000);
        let scheduled = vec![reservation, None];
        let doubles: Vec<_> = scheduled_doubles(&scheduled).collect();
        assert_eq!(doubles.len(), 2 * SCHEDULED_RESERVATION_LENGTH);
        let read = read(operation::CANCEL_SCHEDULED, &doubles, Vec::new);
        assert_eq!(read, Some(Operation::CancelScheduled { scheduled }));
    }

    fn metered(code: u8, numbers: &[f64]) -> Option<Operation> {
        read(code + operation::METERED, numbers, Vec::new)
    }

    #[test]
    fn units_by_policy_follow_the_number_of_policies() {
        let cost = || Units::from([5, 0]);
        let take = metered(operation::TAKE, &[2.0, 5.0, 0.0]);
        assert_eq!(take, Some(Operation::Take { cost: cost() }));
        let schedule = metered(operation::SCHEDULE, &[2.0, 5.0, 0.0, 9.0]);
        assert_eq!(schedule, Some(Operation::Schedule { cost: cost(), max_wait: 9 }));
        let acquire = metered(operation::ACQUIRE, &[2.0, 5.0, 0.0, 7.0, -1.0]);
        let request = PermitRequest { id: 7, waited: None };
        let acquired = |hold| Some(Operation::Acquire { cost: cost(), request, hold });
        assert_eq!(acquire, acquired(None));
        let hold = [3.0; 16];
        let with_hold = [&[2.0, 5.0, 0.0, 7.0, -1.0], &hold[..], &[9.0]].concat();
        let new = NewHold { id: [3; 16], lasting: 9 };
        assert_eq!(metered(operation::ACQUIRE, &with_hold), acquired(Some(new)));
        assert_eq!(metered(operation::ACQUIRE, &with_hold[..20]), None);
        let reserve = metered(operation::RESERVE, &[&hold[..], &[2.0, 5.0, 0.0, 9.0]].concat());
        let reserved = Operation::Reserve { cost: cost(), hold: [3; 16], lasting: 9 };
        assert_eq!(reserve, Some(reserved));
    }

    #[test]
    fn charge_records_have_the_units_of_their_policies() {
        let record =
            |cost, kept, reset_at| ChargeRecord { at: 80, reset_at, mark: 0, used: 1, cost, kept };
        let charge = [80.0, 90.0, 0.0, 1.0, 95.0, 0.0, 1.0];
        let numbers = [&[2.0, 1.0, 2.0, 5.0, 6.0, 4.0, 3.0], &charge[..]].concat();
        let taken = vec![record(5, 4, 90), record(6, 3, 95)];
        let refund = Operation::Refund { units: [1, 2].into(), taken };
        assert_eq!(metered(operation::REFUND, &numbers), Some(refund));

        let (hold, own) = ([3.0; 16], [&[5.0, 6.0], &charge[..]].concat());
        let numbers = [&hold[..], &[2.0, 1.0, 2.0, 2.0], &own, &own].concat();
        let taken = vec![record(5, 0, 90), record(6, 0, 95)];
        let charges = vec![Charge { units: [5, 6].into(), taken }; 2];
        let settle = Operation::Settle { hold: [3; 16], actual: [1, 2].into(), charges };
        assert_eq!(metered(operation::SETTLE, &numbers), Some(settle));
    }

    #[test]
    fn numbers_of_another_number_of_policies_are_no_operation() {
        for numbers in [&[][..], &[2.0, 5.0], &[2.0, 5.0, 0.0, 1.0], &[0.0], &[9.0; 10], &[0.5]] {
            assert_eq!(metered(operation::TAKE, numbers), None, "{numbers:?}");
        }
        let hold = [3.0; 16];
        let settle = [&hold[..], &[2.0, 1.0, 2.0, 3.0]].concat();
        assert_eq!(metered(operation::SETTLE, &settle), None);
        for code in [operation::TAKE_UP_TO, operation::RENEW, operation::RESET, 0] {
            assert_eq!(metered(code, &[1.0, 1.0]), None, "{code}");
        }
    }

    #[test]
    fn an_identifier_and_its_life_stand_before_the_numbers_of_its_call() {
        let code = operation::TAKE + operation::REPEATABLE;
        let group = f64::from(u32::from_le_bytes(*b"job:")) + f64::from(0x37_31) * 2_f64.powi(32);
        let take = |id: &[u8]| {
            let (id, lasting) = (id.into(), 9);
            Operation::Repeatable(Box::new(RepeatableCall {
                id,
                lasting,
                cost: 5.into(),
                hold: None,
                request: None,
            }))
        };
        let read = |code, numbers: &[f64]| super::read(code, numbers, Vec::new);
        assert_eq!(read(code, &[6.0, group, 9.0, 5.0]), Some(take(b"job:17")));
        assert_eq!(read(code, &[7.0, group, 33.0, 9.0, 5.0]), Some(take(b"job:17!")));
        let metered = read(code + operation::METERED, &[1.0, 33.0, 9.0, 2.0, 5.0, 0.0]);
        let Some(Operation::Repeatable(call)) = metered else { panic!("{metered:?}") };
        assert_eq!((&call.id[..], call.cost), (&b"!"[..], [5, 0].into()));
        let reserve = [&[1.0, 33.0, 9.0], &[3.0; 16][..], &[5.0, 7.0]].concat();
        let reserve = read(operation::RESERVE + operation::REPEATABLE, &reserve);
        let Some(Operation::Repeatable(call)) = reserve else { panic!("{reserve:?}") };
        assert_eq!((call.cost, call.hold), (5.into(), Some(([3; 16], 7))));
        let mut hold = [0.0; 16];
        hold[15] = 7.0;
        let acquire = |numbers: &[f64]| read(operation::ACQUIRE + operation::REPEATABLE, numbers);
        let acquired = acquire(&[&[1.0, 33.0, 9.0, 5.0, 7.0, -1.0], &hold[..], &[0.0]].concat());
        let Some(Operation::Repeatable(call)) = acquired else { panic!("{acquired:?}") };
        assert_eq!(call.request, Some(PermitRequest { id: 7, waited: None }));
        assert_eq!(call.hold.map(|(_, lasting)| lasting), Some(0));
        // Without a hold, and with the hold of another permit.
        assert_eq!(acquire(&[1.0, 33.0, 9.0, 5.0, 7.0, -1.0]), None);
        assert_eq!(acquire(&[&[1.0, 33.0, 9.0, 5.0, 8.0, -1.0], &hold[..], &[0.0]].concat()), None);
        let too_long = [&[129.0], &[33.0; 22][..], &[9.0, 5.0]].concat();
        for numbers in [&[0.0, 9.0, 5.0][..], &[6.0], &[6.0, group], &[7.0, group, 9.0], &too_long]
        {
            assert_eq!(read(code, numbers), None, "{numbers:?}");
        }
        assert_eq!(read(operation::PEEK + operation::REPEATABLE, &[1.0, 33.0, 9.0, 5.0]), None);
    }

    #[test]
    fn an_operation_without_its_numbers_is_none() {
        for code in [operation::REFUND, operation::SCHEDULE, operation::ACQUIRE, operation::RESERVE]
        {
            assert_eq!(read(code, &[1.0], Vec::new), None, "{code}");
        }
        assert_eq!(read(0, &[1.0], Vec::new), None);
        assert_eq!(read(operation::RESET, &[], Vec::new), Some(Operation::Reset));
    }
}
