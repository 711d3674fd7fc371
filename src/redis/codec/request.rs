//! What is asked of the script: groups of calls as `lua/dispatch/batch.lua` and `lua/dispatch/decide.lua` read them.

use crate::algorithm::{Booking, ChargeRecord, MAX_WAIT};
use crate::policy::Policy;
use crate::policy::operation::Operation;
use crate::policy::policy_set::{NamedPolicy, Policies};
use crate::redis::codec::{Twin, push_double, wire};
use crate::time::Micros;

/// The form of any calls. Others are the numbers of the algorithms that have a quick way for one call that takes units on
/// each key.
const GENERAL: u8 = 0;

/// The form of one call on each key of several policies that all have a quick way; and where most windows are
/// expected to be open and to have room, which only calls of one unit can be.
const SEVERAL: u8 = 7;
const SEVERAL_EXPECTED: u8 = 10;
/// The form of any calls some of which are about holds.
const WITH_HOLDS: u8 = 9;

/// The form of one unit on each key of windows, most of which are expected to be open and to have room.
const EXPECTED: u8 = 8;

/// Added to a quick form where calls do not take one unit each.
const WITH_COSTS: u8 = 32;

/// What a call asks.
#[derive(Debug, Clone)]
pub(crate) enum Asked {
    /// To take units, by far the most frequent.
    Take(u64),
    /// Anything else.
    Other(Box<Operation>),
}

impl Asked {
    /// The units that it is to take, if it asks for nothing else.
    fn cost(&self) -> Option<u64> {
        match self {
            Self::Take(cost) => Some(*cost),
            Self::Other(_) => None,
        }
    }

    /// Whether it is to take a unit or more, and nothing else.
    pub(crate) fn takes_units(&self) -> bool {
        self.cost().is_some_and(|cost| cost > 0)
    }

    /// Whether it is to take one unit.
    pub(crate) fn takes_one(&self) -> bool {
        self.cost() == Some(1)
    }
}

/// Appends the head of a group of so many calls on so many keys for each subject: the policies, and what
/// they must know of the time around `about`. No calls stand for one of one unit on each subject's n-th
/// key. Behind the policies' keys there are so many that keep holds.
pub(crate) fn push_general(
    request: &mut Vec<u8>,
    policies: &Policies,
    about: Micros,
    keys: impl Fn(usize) -> u16,
    (calls, holds): (u16, u16),
) {
    if holds == 0 {
        request.push(GENERAL);
    } else {
        request.push(WITH_HOLDS);
        request.extend_from_slice(&holds.to_be_bytes());
    }
    request.extend_from_slice(&calls.to_be_bytes());
    request.extend_from_slice(&[byte(policies.subjects()), byte(policies.named().len())]);
    for NamedPolicy { policy, subject, .. } in policies.named() {
        request.extend_from_slice(&[wire(policy).twin() as u8, byte(*subject)]);
        request.extend_from_slice(&keys(*subject).to_be_bytes());
        push_policy(request, policy, about);
    }
}

/// Appends a call: the number of each subject's key, counted from 1, or 0 if it names none; and so the number
/// of the key that keeps its holds.
pub(crate) fn push_call(
    request: &mut Vec<u8>,
    policies: &Policies,
    numbers: &[u16],
    hold: u16,
    asked: &Asked,
) {
    request.push(operation_code(asked));
    for number in numbers {
        request.extend_from_slice(&number.to_be_bytes());
    }
    match asked {
        Asked::Take(cost) => push_double(request, *cost),
        Asked::Other(operation) => push_operation(request, policies, hold, operation),
    }
}

/// What each operation is for the script.
fn operation_code(asked: &Asked) -> u8 {
    match asked {
        Asked::Take(_) => 1,
        Asked::Other(operation) => match **operation {
            // A peek is a take by a script that writes nothing.
            Operation::Take { .. } | Operation::Peek { .. } => 1,
            Operation::TakeUpTo { .. } => 2,
            Operation::Penalize { .. } => 3,
            Operation::Refund { .. } => 4,
            Operation::Reset => 5,
            Operation::Block { .. } => 6,
            Operation::Unblock => 7,
            Operation::Override { .. } => 8,
            Operation::ClearOverride => 9,
            Operation::Book { .. } => 20,
            Operation::Unbook { .. } => 21,
            Operation::Reserve { .. } => 12,
            Operation::Settle { .. } => 13,
        },
    }
}

fn push_operation(
    request: &mut Vec<u8>,
    policies: &Policies,
    hold_key: u16,
    operation: &Operation,
) {
    match operation {
        Operation::Take { cost: units }
        | Operation::Peek { cost: units }
        | Operation::TakeUpTo { units }
        | Operation::Penalize { units } => push_double(request, *units),
        Operation::Refund { units, taken } => {
            push_double(request, *units);
            push_taken(request, policies, taken);
        }
        Operation::Book { cost, max_wait } => {
            push_double(request, *cost);
            push_double(request, (*max_wait).min(MAX_WAIT));
        }
        Operation::Unbook { bookings } => {
            for index in 0..policies.named().len() {
                let booking = bookings.get(index).and_then(Option::as_ref);
                request.push(byte(booking.iter().len()));
                let numbers = booking.into_iter().flat_map(Booking::to_numbers);
                numbers.for_each(|number| push_double(request, number));
            }
        }
        Operation::Reserve { cost, hold, lasting } => {
            request.extend_from_slice(&hold_key.to_be_bytes());
            request.extend_from_slice(hold);
            push_double(request, *cost);
            push_double(request, *lasting);
        }
        // When it ends is known where it is kept.
        Operation::Settle { hold, units, actual, taken, expires_at: _ } => {
            request.extend_from_slice(&hold_key.to_be_bytes());
            request.extend_from_slice(hold);
            push_double(request, *units);
            push_double(request, *actual);
            push_taken(request, policies, taken);
        }
        Operation::Reset => request.extend_from_slice(&hold_key.to_be_bytes()),
        Operation::Block { lasting } => push_double(request, *lasting),
        Operation::Override { policies: own, lasting } => {
            push_double(request, *lasting);
            for (index, NamedPolicy { policy, .. }) in policies.named().iter().enumerate() {
                let own = own.get(index).and_then(Option::as_deref);
                match own.filter(|own| own.tag() == policy.tag()) {
                    None => request.push(0),
                    Some(own) => push_own_numbers(request, own),
                }
            }
        }
        Operation::Unblock | Operation::ClearOverride => {}
    }
}

/// Appends a call that was taken, by policy.
fn push_taken(request: &mut Vec<u8>, policies: &Policies, taken: &[ChargeRecord]) {
    for index in 0..policies.named().len() {
        // Without such a call there is nothing to give back.
        let nothing = ChargeRecord { at: 0, reset_at: 0 };
        let ChargeRecord { at, reset_at } = taken.get(index).copied().unwrap_or(nothing);
        push_double(request, at);
        push_double(request, reset_at);
    }
}

/// Appends the numbers that a key may have of its own: the first of those of a policy.
fn push_own_numbers(request: &mut Vec<u8>, policy: &Policy) {
    let wire = wire(policy);
    let mut numbers = Vec::new();
    wire.push_policy(&mut numbers);
    numbers.truncate(8 * wire.own_numbers());
    request.push(byte(numbers.len() / 8));
    request.extend_from_slice(&numbers);
}

/// Whether the script has a quick way for one call that takes units on each key.
pub(crate) fn has_quick_way(policies: &Policies) -> bool {
    use Twin::{FixedWindow, Rate, SlidingCounter, SlidingWindowList, TokenBucketInterval};
    let is_alone = policies.alone().is_some();
    policies.named().iter().all(|named| match wire(&named.policy).twin() {
        Rate | FixedWindow | SlidingCounter | TokenBucketInterval => true,
        SlidingWindowList => is_alone,
        _ => false,
    })
}

/// Appends a group of calls that take units, one on each key of every policy. `expected` says of windows
/// that most of them should be open and have room. Nothing if the algorithms have no such way, or if not all calls are
/// such.
pub(crate) fn push_takes(
    request: &mut Vec<u8>,
    policies: &Policies,
    about: Micros,
    calls: &[Asked],
    expected: bool,
) -> Option<()> {
    let keys = u16::try_from(calls.len()).ok()?;
    let are_units = calls.iter().all(Asked::takes_one);
    let are_takes = are_units || calls.iter().all(Asked::takes_units);
    if !are_takes || !has_quick_way(policies) {
        return None;
    }
    let (expected, costs) = if are_units { (expected, 0) } else { (false, WITH_COSTS) };
    match policies.alone().map(|policy| wire(policy).twin()) {
        Some(Twin::FixedWindow) if expected => request.push(EXPECTED),
        Some(twin) => request.push(twin as u8 + costs),
        None => request.push(costs + if expected { SEVERAL_EXPECTED } else { SEVERAL }),
    }
    request.extend_from_slice(&keys.to_be_bytes());
    if !are_units {
        calls.iter().filter_map(Asked::cost).for_each(|cost| push_double(request, cost));
    }
    if policies.alone().is_none() {
        request.push(byte(policies.named().len()));
    }
    for NamedPolicy { policy, .. } in policies.named() {
        if policies.alone().is_none() {
            request.push(wire(policy).twin() as u8);
        }
        push_policy(request, policy, about);
    }
    Some(())
}

fn push_policy(request: &mut Vec<u8>, policy: &Policy, about: Micros) {
    let wire = wire(policy);
    wire.push_policy(request);
    wire.push_time(about, request);
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}
