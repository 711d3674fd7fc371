//! Operations from their numbers in JavaScript.

use super::whole;
use crate::algorithm::ChargeRecord;
use crate::policy::operation::Operation;

/// The operation of a number, if it needs only an amount. `ts/backends/operation.ts` has the same
/// numbers.
pub(crate) fn operation(code: u64, amount: u64) -> Option<Operation> {
    Some(match code {
        0 => Operation::Take { cost: amount },
        1 => Operation::TakeUpTo { units: amount },
        2 => Operation::Peek { cost: amount },
        3 => Operation::Penalize { units: amount },
        4 => Operation::Reset,
        5 => Operation::Block { lasting: amount },
        6 => Operation::Unblock,
        7 => Operation::ClearOverride,
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

/// Settles a hold; `None` if `hold` is not a hold's id or numbers are missing. `numbers` has the
/// units taken, the actual units and the hold's end, and then the numbers of [`refund`] for the
/// call.
pub(crate) fn settle(hold: &[u8], numbers: &[f64]) -> Option<Operation> {
    let (&[units, actual, expires_at], taken) = numbers.split_first_chunk()?;
    let Operation::Refund { taken, .. } = refund(units, taken) else { return None };
    let (units, actual, expires_at) = (whole(units), whole(actual), whole(expires_at));
    Some(Operation::Settle { hold: hold.try_into().ok()?, units, actual, taken, expires_at })
}
