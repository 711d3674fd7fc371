//! Operations as JavaScript asks for them, by numbers.

use super::whole;
use crate::algorithm::ChargeRecord;
use crate::policy::operation::Operation;

/// The operation of this number, if it needs no more than an amount beside its keys. `ts/backends/operation.ts` has
/// the same numbers.
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

/// Gives back `units` of an earlier call: `taken` has its time and then, by policy, when the key was to be as
/// if never used, in whole microseconds.
pub(crate) fn refund(units: f64, taken: &[f64]) -> Operation {
    let (at, resets) = taken.split_first().unwrap_or((&0.0, &[]));
    let taken = |&reset: &f64| ChargeRecord { at: whole(*at), reset_at: whole(reset) };
    Operation::Refund { units: whole(units), taken: resets.iter().map(taken).collect() }
}

/// Takes units under a hold; nothing if that is no hold's id.
#[cfg(any(feature = "redis", feature = "wasm-redis"))]
pub(crate) fn reserve(cost: f64, hold: &[u8], lasting_us: f64) -> Option<Operation> {
    let (cost, lasting) = (whole(cost), whole(lasting_us));
    Some(Operation::Reserve { cost, hold: hold.try_into().ok()?, lasting })
}

/// Settles a hold: `numbers` has the units that were taken, the actual units and when the hold ends; and then what
/// [`refund`] is given of the call. Nothing if that is no hold's id.
pub(crate) fn settle(hold: &[u8], numbers: &[f64]) -> Option<Operation> {
    let (&[units, actual, expires_at], taken) = numbers.split_first_chunk()?;
    let Operation::Refund { taken, .. } = refund(units, taken) else { return None };
    let (units, actual, expires_at) = (whole(units), whole(actual), whole(expires_at));
    Some(Operation::Settle { hold: hold.try_into().ok()?, units, actual, taken, expires_at })
}
