//! What is asked of a script: groups of calls as `lua/batch.lua` reads them.

use super::wire::{push_double, wire};
use crate::policy::Policy;
use crate::time::Micros;

/// A call of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    /// The number of its key, counted from 1.
    pub(super) key: u16,
    pub(super) cost: u64,
}

/// Appends a group: a policy, what it must know of the time around `about`, and the calls on so many
/// keys. No calls stand for one of one unit on each key.
pub(super) fn push_group(
    request: &mut Vec<u8>,
    policy: &Policy,
    about: Micros,
    keys: u16,
    calls: &[Call],
) {
    let wire = wire(policy);
    let listed = u16::try_from(calls.len()).unwrap_or(u16::MAX);
    request.extend_from_slice(&keys.to_be_bytes());
    request.extend_from_slice(&listed.to_be_bytes());
    wire.push_policy(request);
    wire.push_time(about, request);
    for &Call { key, cost } in calls {
        request.extend_from_slice(&key.to_be_bytes());
        push_double(request, cost);
        wire.push_cost(cost, request);
    }
}
