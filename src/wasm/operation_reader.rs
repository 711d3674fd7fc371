//! Operations from their numbers and the scratch memory.

use super::{builder, operation, reservation, whole};
use crate::policy::operation::{HoldId, Operation};
use crate::protocol::operation as codes;
use crate::wasm::scratch::Scratch;

/// The operation of this code, with `count` arguments in the scratch memory.
pub(crate) fn read_operation(scratch: &Scratch, code: u8, count: usize) -> Option<Operation> {
    match (code, scratch.arguments(count)) {
        (codes::REFUND, [units, taken @ ..]) => Some(operation::refund(*units, taken)),
        (codes::RESERVE | codes::EXTEND | codes::SETTLE | codes::RENEW, numbers) => {
            let (hold, numbers) = numbers.split_first_chunk()?;
            operation::on_hold(&hold_of(hold), numbers)
        }
        (codes::ACQUIRE, numbers) => operation::acquire(numbers),
        (codes::OVERRIDE, &[lasting]) => {
            let lasting = whole(lasting);
            Some(Operation::Override { policies: builder::take_overrides(), lasting })
        }
        (codes::SCHEDULE, &[cost, max_wait]) => Some(reservation::schedule(cost, max_wait)),
        (codes::CANCEL_SCHEDULED, booked) => Some(reservation::cancel_scheduled(booked)),
        (code, &[amount]) => operation::operation(code.into(), whole(amount)),
        _ => None,
    }
}

/// A hold's id from its bytes.
fn hold_of(bytes: &[f64; size_of::<HoldId>()]) -> HoldId {
    bytes.map(|byte| u8::try_from(whole(byte)).unwrap_or(0))
}
