//! Policies, calls and states as the scripts read and answer them. `lua/` is the other end.

use std::fmt;
use std::sync::Arc;

use crate::algorithm::{
    Arrival, FixedWindow, Rate, RateBased as _, RateNumbers, RateState, WindowState,
};
use crate::policy::{Policy, State};
use crate::time::{MAX_SAFE, Micros};

/// A value of a reply, as far as scripts answer with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An integer.
    Number(i64),
    /// A bulk string: the text of an error.
    Text(String),
}

/// The reply is not what the script answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedReply;

impl fmt::Display for MalformedReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reply is not what the script answers")
    }
}

impl std::error::Error for MalformedReply {}

/// The values of a reply, taken one by one.
pub(super) struct Values<'a>(pub(super) std::slice::Iter<'a, Value>);

impl Values<'_> {
    pub(super) fn number(&mut self) -> Result<u64, MalformedReply> {
        match self.0.next() {
            Some(Value::Number(number)) => u64::try_from(*number).map_err(|_| MalformedReply),
            _ => Err(MalformedReply),
        }
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.0 = self.0.as_slice().get(count..).unwrap_or_default().iter();
    }

    pub(super) fn text(&mut self) -> Result<String, MalformedReply> {
        match self.0.next() {
            Some(Value::Text(text)) => Ok(text.clone()),
            _ => Err(MalformedReply),
        }
    }
}

/// How a policy's states are laid out.
enum Layout<'a> {
    Rate(&'a Rate),
    Window(&'a FixedWindow),
}

fn layout(policy: &Policy) -> Layout<'_> {
    match policy {
        Policy::FixedWindow(window) => Layout::Window(window),
        Policy::TokenBucket(bucket) => Layout::Rate(bucket.rate()),
        Policy::Gcra(gcra) => Layout::Rate(gcra.rate()),
    }
}

/// A TTL is set anew when the arrival passes a multiple of this, the time to full; short ones are
/// stretched, because a key that lives a little longer costs less than a TTL.
const SHORTEST_TTL_STEP: Micros = 1_000_000;

/// The policy's numbers: the script's first argument.
pub(super) fn policy_argument(policy: &Policy) -> Vec<u8> {
    let mut argument = Vec::with_capacity(64);
    match layout(policy) {
        Layout::Rate(rate) => {
            let RateNumbers { period, units, burst } = rate.numbers();
            let (unit, full) = (rate.time_of(1), rate.full());
            let ttl_step = full.micros.max(SHORTEST_TTL_STEP);
            for number in
                [period, units, burst, unit.micros, unit.part, full.micros, full.part, ttl_step]
            {
                push_double(&mut argument, number);
            }
        }
        Layout::Window(window) => {
            use crate::algorithm::Algorithm as _;
            push_double(&mut argument, window.limit());
            push_double(&mut argument, window.window());
        }
    }
    argument
}

/// One call: a part of the script's second argument. `key` counts from 1.
pub(super) fn push_call(argument: &mut Vec<u8>, policy: &Policy, key: u16, cost: u64) {
    argument.extend_from_slice(&key.to_be_bytes());
    push_double(argument, cost);
    if let Layout::Rate(rate) = layout(policy) {
        // An impossible cost has a time that does not fit, and that nobody asks for.
        let possible = cost <= rate.numbers().burst;
        let Arrival { micros, part } =
            if possible { rate.time_of(cost) } else { Arrival { micros: 0, part: 0 } };
        push_double(argument, micros);
        push_double(argument, part);
    }
}

/// Reads the state that a call left; `others` has its numbers if they are not the policy's.
pub(super) fn state(
    values: &mut Values<'_>,
    policy: &Policy,
    others: Option<&mut Values<'_>>,
) -> Result<State, MalformedReply> {
    let (first, second) = (values.number()?, values.number()?);
    match layout(policy) {
        Layout::Rate(rate) => {
            let arrival = Arrival { micros: first, part: second };
            let numbers = match others {
                Some(others) => Arc::new(rate_numbers(others)?),
                None => rate.shared_numbers(),
            };
            Ok(State::Rate(RateState { arrival, numbers }))
        }
        Layout::Window(_) => Ok(State::Window(WindowState { ends_ms: first, count: second })),
    }
}

fn rate_numbers(values: &mut Values<'_>) -> Result<RateNumbers, MalformedReply> {
    let (period, units, burst) = (values.number()?, values.number()?, values.number()?);
    if [period, units, burst].contains(&0) {
        return Err(MalformedReply);
    }
    Ok(RateNumbers { period, units, burst })
}

/// A whole number below 2^53 as Lua's `struct` reads it with `>d`.
#[expect(clippy::cast_precision_loss, reason = "numbers up to 2^53 are exact")]
fn push_double(argument: &mut Vec<u8>, number: u64) {
    debug_assert!(number <= MAX_SAFE + 1, "{number} has no exact double");
    argument.extend_from_slice(&(number as f64).to_be_bytes());
}
