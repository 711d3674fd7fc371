//! What is asked of a script: policies and calls as `lua/` reads them.

use crate::algorithm::{Algorithm as _, Arrival, RateNumbers};
use crate::policy::{Layout, Policy};
use crate::time::{MAX_SAFE, Micros};

/// A call of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    /// The number of its key, counted from 1.
    pub(super) key: u16,
    pub(super) cost: u64,
}

/// A TTL is set anew when the arrival passes a multiple of this, the time to full; short ones are
/// stretched, because a key that lives a little longer costs less than a TTL.
const SHORTEST_TTL_STEP: Micros = 1_000_000;

/// Appends a group: a policy, and the calls on so many keys. No calls stand for one of one unit on
/// each key.
pub(super) fn push_group(request: &mut Vec<u8>, policy: &Policy, keys: u16, calls: &[Call]) {
    let listed = u16::try_from(calls.len()).unwrap_or(u16::MAX);
    request.extend_from_slice(&keys.to_be_bytes());
    request.extend_from_slice(&listed.to_be_bytes());
    push_policy(request, policy);
    for call in calls {
        push_call(request, policy, call);
    }
}

fn push_policy(request: &mut Vec<u8>, policy: &Policy) {
    match policy.layout() {
        Layout::Rate(rate) => {
            let RateNumbers { period, units, burst } = rate.numbers();
            let (unit, full) = (rate.time_of(1), rate.full());
            let ttl_step = full.micros.max(SHORTEST_TTL_STEP);
            for number in
                [period, units, burst, unit.micros, unit.part, full.micros, full.part, ttl_step]
            {
                push_double(request, number);
            }
        }
        Layout::Window(window) => {
            push_double(request, window.limit());
            push_double(request, window.window());
        }
    }
}

fn push_call(request: &mut Vec<u8>, policy: &Policy, call: &Call) {
    let Call { key, cost } = *call;
    request.extend_from_slice(&key.to_be_bytes());
    push_double(request, cost);
    if let Layout::Rate(rate) = policy.layout() {
        // An impossible cost has a time that does not fit, and that nobody asks for.
        let possible = cost <= rate.numbers().burst;
        let Arrival { micros, part } =
            if possible { rate.time_of(cost) } else { Arrival { micros: 0, part: 0 } };
        push_double(request, micros);
        push_double(request, part);
    }
}

/// A whole number below 2^53 as Lua's `struct` reads it with `>d`.
#[expect(clippy::cast_precision_loss, reason = "numbers up to 2^53 are exact")]
fn push_double(request: &mut Vec<u8>, number: u64) {
    debug_assert!(number <= MAX_SAFE + 1, "{number} has no exact double");
    request.extend_from_slice(&(number as f64).to_be_bytes());
}
