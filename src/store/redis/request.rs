//! What is asked of the script: groups of calls as `lua/batch.lua` reads them.

use super::wire::{Twin, Wire, push_double, wire};
use crate::policy::Policy;
use crate::time::Micros;

/// The form of any calls. Others are the numbers of the algorithms that have a quick way for one unit on
/// each key.
const GENERAL: u8 = 0;

/// The form of one unit on each key of windows, most of which are expected to be open and to have room.
const EXPECTED: u8 = 8;

/// A call of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    /// The number of its key, counted from 1.
    pub(super) key: u16,
    pub(super) cost: u64,
}

/// Appends a group of the calls that are listed: a policy, what it must know of the time around `about`,
/// and the calls on so many keys.
pub(super) fn push_calls(
    request: &mut Vec<u8>,
    policy: &Policy,
    about: Micros,
    keys: u16,
    calls: &[Call],
) {
    let listed = u16::try_from(calls.len()).unwrap_or(u16::MAX);
    push_general(request, wire(policy), about, keys, listed);
    for &Call { key, cost } in calls {
        request.extend_from_slice(&key.to_be_bytes());
        push_double(request, cost);
    }
}

/// Appends a group of one unit on each of so many keys. `expected` says of windows that most of them should
/// be open and have room.
pub(super) fn push_units(
    request: &mut Vec<u8>,
    policy: &Policy,
    about: Micros,
    keys: u16,
    expected: bool,
) {
    let wire = wire(policy);
    let form = match wire.twin() {
        Twin::SlidingWindowHash | Twin::SlidingLog => {
            return push_general(request, wire, about, keys, 0);
        }
        Twin::FixedWindow if expected => EXPECTED,
        twin => twin as u8,
    };
    request.push(form);
    request.extend_from_slice(&keys.to_be_bytes());
    wire.push_policy(request);
    wire.push_time(about, request);
}

/// Appends the head of a group in the general form. No calls stand for one of one unit on each key.
fn push_general(request: &mut Vec<u8>, wire: &dyn Wire, about: Micros, keys: u16, calls: u16) {
    request.push(GENERAL);
    request.extend_from_slice(&calls.to_be_bytes());
    request.extend_from_slice(&[1, wire.twin() as u8]);
    request.extend_from_slice(&keys.to_be_bytes());
    wire.push_policy(request);
    wire.push_time(about, request);
}
