//! Operations from their numbers in JavaScript.

use super::whole;
use crate::algorithm::{ChargeRecord, PermitRequest};
use crate::policy::operation::{Charge, Operation};
use crate::protocol::operation;

/// The operation of a code, if it needs only an amount.
pub(crate) fn operation(code: u64, amount: u64) -> Option<Operation> {
    Some(match u8::try_from(code).ok()? {
        operation::TAKE => Operation::Take { cost: amount },
        operation::TAKE_UP_TO => Operation::TakeUpTo { units: amount },
        operation::PEEK => Operation::Peek { cost: amount },
        operation::PENALIZE => Operation::Penalize { units: amount },
        operation::RESET => Operation::Reset,
        operation::BLOCK => Operation::Block { lasting: amount },
        operation::UNBLOCK => Operation::Unblock,
        operation::CLEAR_OVERRIDE => Operation::ClearOverride,
        operation::RELEASE => Operation::Release { permit: amount },
        operation::RENEW_PERMIT => Operation::RenewPermit { permit: amount },
        _ => return None,
    })
}

/// Refunds `units` of an earlier call. `taken` has the units of that call, those that stay charged,
/// its time and then, by policy, the time at which the key was to be fresh, in whole microseconds,
/// the mark, and the units that were used after it.
pub(crate) fn refund(units: f64, taken: &[f64]) -> Operation {
    let (&[cost, kept], taken) = taken.split_first_chunk().unwrap_or((&[0.0; 2], &[]));
    Operation::Refund {
        units: whole(units),
        taken: charge_records(taken, whole(cost), whole(kept)),
    }
}

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

/// An operation on a hold; `None` if `hold` is not a hold's id, or numbers are missing.
///
/// The first number is the code of the operation. A reservation and its extension have the units and
/// the microseconds for which it lasts; a renewal has these microseconds. A settlement has the actual
/// units, the number of policies and, for each charge, its units, its time and by policy the time at
/// which the key was to be fresh, the mark and the used units.
pub(crate) fn on_hold(hold: &[u8], numbers: &[f64]) -> Option<Operation> {
    let hold = hold.try_into().ok()?;
    let (code, numbers) = numbers.split_first()?;
    Some(match (u8::try_from(whole(*code)).ok()?, numbers) {
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

/// The charge of these numbers: its units, and then its time and those of each policy.
fn charge(numbers: &[f64]) -> Charge {
    let (units, taken) = numbers.split_first().unwrap_or((&0.0, &[]));
    let units = whole(*units);
    Charge { units, taken: charge_records(taken, units, 0) }
}

/// A call for a permit; `None` if numbers are missing. `numbers` has the units, the permit, and the
/// microseconds for which the call has waited, which are negative if it does not wait.
pub(crate) fn acquire(numbers: &[f64]) -> Option<Operation> {
    let &[cost, permit, waited] = numbers else { return None };
    let waited = (waited >= 0.0).then(|| whole(waited));
    let request = PermitRequest { id: whole(permit), waited };
    Some(Operation::Acquire { cost: whole(cost), request })
}
