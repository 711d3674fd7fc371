//! Operations from their numbers in JavaScript.

use super::whole;
use crate::algorithm::{ChargeRecord, PermitRequest};
use crate::policy::operation::{HoldId, Operation};
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
        // The embedded store keeps no holds: JavaScript knows their ends.
        operation::RELEASE => Operation::Release { permit: amount },
        operation::RENEW_PERMIT => Operation::RenewPermit { permit: amount },
        operation::RENEW => {
            Operation::Renew { hold: HoldId::default(), lasting: 0, expires_at: amount }
        }
        _ => return None,
    })
}

/// Refunds `units` of an earlier call. `taken` has the time of that call and then, by policy, the
/// time at which the key was to be fresh, in whole microseconds.
pub(crate) fn refund(units: f64, taken: &[f64]) -> Operation {
    let (at, resets) = taken.split_first().unwrap_or((&0.0, &[]));
    let taken = |&reset: &f64| ChargeRecord { at: whole(*at), reset_at: whole(reset) };
    Operation::Refund { units: whole(units), taken: resets.iter().map(taken).collect() }
}

/// Takes units under a hold; `None` if `hold` is not a hold's id.
#[cfg(any(feature = "redis", feature = "wasm-redis"))]
pub(crate) fn reserve(cost: f64, hold: &[u8], lasting_us: f64) -> Option<Operation> {
    let (cost, lasting) = (whole(cost), whole(lasting_us));
    Some(Operation::Reserve { cost, hold: hold.try_into().ok()?, lasting })
}

/// A call for a permit; `None` if numbers are missing. `numbers` has the units, the permit, and the
/// microseconds for which the call has waited, which are negative if it does not wait.
pub(crate) fn acquire(numbers: &[f64]) -> Option<Operation> {
    let &[cost, permit, waited] = numbers else { return None };
    let waited = (waited >= 0.0).then(|| whole(waited));
    let request = PermitRequest { id: whole(permit), waited };
    Some(Operation::Acquire { cost: whole(cost), request })
}

/// Renews a hold; `None` if `hold` is not a hold's id. Over Redis the hold's end is in the hold key.
#[cfg(any(feature = "redis", feature = "wasm-redis"))]
pub(crate) fn renew(hold: &[u8], lasting_us: f64) -> Option<Operation> {
    let hold = hold.try_into().ok()?;
    Some(Operation::Renew { hold, lasting: whole(lasting_us), expires_at: 0 })
}

/// Settles a hold; `None` if `hold` is not a hold's id or numbers are missing. `numbers` has the
/// units taken, the actual units and the hold's end, and then the numbers of [`refund`] for the
/// call.
pub(crate) fn settle(hold: &[u8], numbers: &[f64]) -> Option<Operation> {
    let (&[units, actual, expires_at], taken) = numbers.split_first_chunk()?;
    let Operation::Refund { taken, .. } = refund(units, taken) else { return None };
    let (units, actual, expires_at) = (whole(units), whole(actual), whole(expires_at));
    Some(Operation::Settle { hold: hold.try_into().ok()?, units, actual, taken, expires_at })
}
