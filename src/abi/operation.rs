//! Operations from their numbers in JavaScript.

use std::sync::Arc;

use super::whole;
use crate::algorithm::{
    ChargeRecord, PermitRequest, SCHEDULED_RESERVATION_LENGTH, ScheduledReservation,
};
use crate::policy::Policy;
use crate::policy::operation::{Charge, HoldId, Operation};
use crate::protocol::operation;

/// The numbers of an override, by policy; `None` for a policy that keeps those of its limiter.
pub(crate) type Overrides = Vec<Option<Arc<Policy>>>;

/// The operation of a code and its numbers, which `numbersOf` in `ts/backends/operation.ts` writes;
/// `None` if numbers are missing. Times are whole microseconds.
pub(crate) fn read(
    code: u8,
    numbers: &[f64],
    overrides: impl FnOnce() -> Overrides,
) -> Option<Operation> {
    let amount = whole(numbers.first().copied().unwrap_or(0.0));
    Some(match code {
        operation::TAKE => Operation::Take { cost: amount },
        operation::TAKE_UP_TO => Operation::TakeUpTo { units: amount },
        operation::PEEK => Operation::Peek { cost: amount },
        operation::PENALIZE => Operation::Penalize { units: amount },
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
            Operation::Schedule { cost: amount, max_wait: whole(max_wait) }
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

/// Refunds units of an earlier call. The numbers are these units, those of that call, those that stay
/// charged, and its charge.
fn refund(numbers: &[f64]) -> Option<Operation> {
    let (&[units, cost, kept], taken) = numbers.split_first_chunk()?;
    let taken = charge_records(taken, whole(cost), whole(kept));
    Some(Operation::Refund { units: whole(units), taken })
}

/// The charge of a call: its time and, by policy, the time at which the key was to be fresh, the mark,
/// and the units that were used after it.
fn charge_records(taken: &[f64], cost: u64, kept: u64) -> Vec<ChargeRecord> {
    let (at, policies) = taken.split_first().unwrap_or((&0.0, &[]));
    let record = |&[reset_at, mark, used]: &[f64; 3]| ChargeRecord {
        at: whole(*at),
        reset_at: whole(reset_at),
        mark: whole(mark),
        used: whole(used),
        cost,
        kept,
    };
    policies.as_chunks().0.iter().map(record).collect()
}

/// An operation on a hold. A reservation and its extension have the units and the time for which it
/// lasts; a renewal has this time. A settlement has the actual units, the number of policies and, for
/// each charge, its units and the charge.
fn on_hold(code: u8, hold: HoldId, numbers: &[f64]) -> Option<Operation> {
    Some(match (code, numbers) {
        (operation::RESERVE, &[cost, lasting]) => {
            Operation::Reserve { cost: whole(cost), hold, lasting: whole(lasting) }
        }
        (operation::EXTEND, &[cost, lasting]) => {
            Operation::Extend { hold, cost: whole(cost), lasting: whole(lasting) }
        }
        (operation::RENEW, &[lasting]) => Operation::Renew { hold, lasting: whole(lasting) },
        (operation::SETTLE, [actual, policies, charges @ ..]) => {
            let length = 2 + 3 * usize::try_from(whole(*policies)).ok()?;
            let charges = charges.chunks_exact(length).map(charge).collect();
            Operation::Settle { hold, actual: whole(*actual), charges }
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
    let units = whole(*units);
    Charge { units, taken: charge_records(taken, units, 0) }
}

/// A call for a permit: the units, the permit, and the time for which the call has waited, which is
/// negative if it does not wait.
fn acquire(numbers: &[f64]) -> Option<Operation> {
    let &[cost, permit, waited] = numbers else { return None };
    let waited = (waited >= 0.0).then(|| whole(waited));
    let request = PermitRequest { id: whole(permit), waited };
    Some(Operation::Acquire { cost: whole(cost), request })
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
