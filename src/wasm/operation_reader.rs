//! Operations, by their numbers and by what lies on the desk.

use super::{builder, operation, reservation, whole};
use crate::policy::operation::{HoldId, Operation};
use crate::wasm::scratch::Desk;

/// The operation of this number, with what else it needs, in so many numbers on the desk. `ts/wasm/engine/operation-numbers.ts` has the
/// same.
pub(crate) fn asked(desk: &Desk, code: u32, count: usize) -> Option<Operation> {
    match (code, desk.question(count)) {
        (8, [units, taken @ ..]) => Some(operation::refund(*units, taken)),
        // In memory there is no hold to be found.
        (9, numbers) => operation::settle(&HoldId::default(), numbers),
        (10, &[lasting]) => {
            let lasting = whole(lasting);
            Some(Operation::Override { policies: builder::take_numbers(), lasting })
        }
        (11, &[cost, max_wait]) => Some(reservation::book(cost, max_wait)),
        (12, booked) => Some(reservation::unbook(booked)),
        #[cfg(feature = "wasm-redis")]
        (13, numbers) => match numbers.split_first_chunk()? {
            (hold, &[cost, lasting]) => operation::reserve(cost, &hold_of(hold), lasting),
            _ => None,
        },
        #[cfg(feature = "wasm-redis")]
        (14, numbers) => {
            let (hold, numbers) = numbers.split_first_chunk()?;
            operation::settle(&hold_of(hold), numbers)
        }
        (code, &[amount]) => operation::operation(code.into(), whole(amount)),
        _ => None,
    }
}

/// A hold's id, by its bytes.
#[cfg(feature = "wasm-redis")]
fn hold_of(bytes: &[f64; size_of::<HoldId>()]) -> HoldId {
    bytes.map(|byte| u8::try_from(whole(byte)).unwrap_or(0))
}
