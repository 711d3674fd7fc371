//! Operations from their numbers and the scratch memory.

use super::{builder, operation, reservation, whole};
use crate::policy::operation::{HoldId, Operation};
use crate::wasm::scratch::Scratch;

/// The operation of this number, with `count` arguments in the scratch memory.
/// `ts/wasm/engine/operation-codes.ts` has the same numbers.
pub(crate) fn read_operation(scratch: &Scratch, code: u32, count: usize) -> Option<Operation> {
    match (code, scratch.arguments(count)) {
        (8, [units, taken @ ..]) => Some(operation::refund(*units, taken)),
        // The embedded store keeps no holds.
        (9, numbers) => operation::settle(&HoldId::default(), numbers),
        (10, &[lasting]) => {
            let lasting = whole(lasting);
            Some(Operation::Override { policies: builder::take_overrides(), lasting })
        }
        (11, &[cost, max_wait]) => Some(reservation::schedule(cost, max_wait)),
        (12, booked) => Some(reservation::cancel_scheduled(booked)),
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

/// A hold's id from its bytes.
#[cfg(feature = "wasm-redis")]
fn hold_of(bytes: &[f64; size_of::<HoldId>()]) -> HoldId {
    bytes.map(|byte| u8::try_from(whole(byte)).unwrap_or(0))
}
