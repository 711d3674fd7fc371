//! Operations from their numbers and the scratch memory.

use super::{builder, operation, reservation, whole};
use crate::policy::operation::{HoldId, Operation};
use crate::protocol::operation as codes;
use crate::wasm::scratch::Scratch;

/// The operation of this code, with `count` arguments in the scratch memory.
pub(crate) fn read_operation(scratch: &Scratch, code: u8, count: usize) -> Option<Operation> {
    match (code, scratch.arguments(count)) {
        (codes::REFUND, [units, taken @ ..]) => Some(operation::refund(*units, taken)),
        // The embedded store keeps no holds.
        (codes::SETTLE, numbers) => operation::settle(&HoldId::default(), numbers),
        (codes::ACQUIRE, numbers) => operation::acquire(numbers),
        (codes::OVERRIDE, &[lasting]) => {
            let lasting = whole(lasting);
            Some(Operation::Override { policies: builder::take_overrides(), lasting })
        }
        (codes::SCHEDULE, &[cost, max_wait]) => Some(reservation::schedule(cost, max_wait)),
        (codes::CANCEL_SCHEDULED, booked) => Some(reservation::cancel_scheduled(booked)),
        #[cfg(feature = "wasm-redis")]
        (codes::RESERVE, numbers) => match numbers.split_first_chunk()? {
            (hold, &[cost, lasting]) => operation::reserve(cost, &hold_of(hold), lasting),
            _ => None,
        },
        #[cfg(feature = "wasm-redis")]
        (codes::RENEW, numbers) => match numbers.split_first_chunk()? {
            (hold, &[lasting]) => operation::renew(&hold_of(hold), lasting),
            _ => None,
        },
        #[cfg(feature = "wasm-redis")]
        (codes::SETTLE_HOLD, numbers) => {
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
