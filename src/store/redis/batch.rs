//! A batch of calls of one limiter.

use std::collections::HashMap;
use std::fmt;

use super::job::Job;
use super::name::Names;
use super::script::Script;
use super::wire::{self, MalformedReply, Value, Values};
use crate::algorithm::Outcome;
use crate::decision::{self, Decision};
use crate::key::Key;
use crate::policy::{Policy, State};
use crate::time::Micros;

/// The calls of one limiter that a script decides together, in order.
#[derive(Debug)]
pub struct Batch {
    /// The names of the keys, each once.
    keys: Vec<String>,
    numbers: HashMap<String, u16>,
    calls: Vec<Call>,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    /// The number of its key, counted from 1.
    key: u16,
    cost: u64,
}

/// Why a call of a batch that was run has no decision. Nothing was charged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The key holds something that no limiter wrote.
    Unreadable,
    /// Redis refused to write it, and said why.
    Unwritten(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str("the key holds something that no limiter wrote"),
            Self::Unwritten(why) => write!(f, "Redis refused to write the key: {why}"),
        }
    }
}

impl std::error::Error for CallError {}

/// Added to an outcome's number when the state is in other numbers than the policy's.
const OTHER: u64 = 8;

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self { keys: Vec::new(), numbers: HashMap::new(), calls: Vec::new() }
    }

    /// Adds a call; more than 65,535 keys do not fit.
    pub fn push(&mut self, names: &Names, key: Key<'_>, cost: u64) {
        let name = names.of(key);
        let next = u16::try_from(self.keys.len() + 1).unwrap_or(u16::MAX);
        let key = *self.numbers.entry(name).or_insert_with_key(|name| {
            self.keys.push(name.clone());
            next
        });
        self.calls.push(Call { key, cost });
    }

    /// Takes the calls out, and leaves none.
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// The job that decides the calls under `policy`, or, if `peek`, only looks.
    #[must_use]
    pub fn job(&self, policy: &Policy, peek: bool) -> Job {
        let [numbers, calls] = self.arguments(policy);
        let mode = if peek { b"peek".to_vec() } else { Vec::new() };
        let arguments = vec![numbers, calls, mode];
        Job { script: Script::of(policy), keys: self.keys.clone(), arguments }
    }

    /// The number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there are no calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The keys that the script declares.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The script's two arguments.
    #[must_use]
    pub fn arguments(&self, policy: &Policy) -> [Vec<u8>; 2] {
        let mut calls = Vec::new();
        let one_each = self.calls.len() == self.keys.len();
        if !one_each || self.calls.iter().any(|call| call.cost != 1) {
            for call in &self.calls {
                wire::push_call(&mut calls, policy, call.key, call.cost);
            }
        }
        [wire::policy_argument(policy), calls]
    }

    /// Reads the script's answer: a decision or an error for each call.
    ///
    /// # Errors
    /// [`MalformedReply`] if it is none.
    pub fn decisions(
        &self,
        policy: &Policy,
        reply: &[Value],
    ) -> Result<Vec<Result<Decision, CallError>>, MalformedReply> {
        let states = 1 + 3 * self.calls.len();
        let mut values = Values(reply.get(..states).ok_or(MalformedReply)?.iter());
        // What the policy's numbers are not stands behind all calls.
        let mut others = Values(reply[states..].iter());
        let now = values.number()?;
        let mut decisions = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            let code = values.number()?;
            let outcome = match code % OTHER {
                0 => Outcome::Admitted,
                1 => Outcome::Refused,
                2 => Outcome::Impossible,
                3 => {
                    values.skip(2);
                    decisions.push(Err(CallError::Unreadable));
                    continue;
                }
                4 => {
                    decisions.push(Err(CallError::Unwritten(values.text()?)));
                    values.skip(1);
                    continue;
                }
                _ => return Err(MalformedReply),
            };
            let others = (code >= OTHER).then_some(&mut others);
            let state = wire::state(&mut values, policy, others)?;
            decisions.push(Ok(decision::describe(policy, &state, now, call.cost, outcome)));
        }
        Ok(decisions)
    }
}

impl Batch {
    /// Reads the state of the key of the first call, and the time, from the script's answer to a
    /// peek.
    ///
    /// # Errors
    /// [`MalformedReply`] if it is none.
    pub fn standing(
        &self,
        policy: &Policy,
        reply: &[Value],
    ) -> Result<Result<(State, Micros), CallError>, MalformedReply> {
        if let Err(error) =
            self.decisions(policy, reply)?.into_iter().next().ok_or(MalformedReply)?
        {
            return Ok(Err(error));
        }
        let mut values = Values(reply.iter());
        let (now, code) = (values.number()?, values.number()?);
        let mut others = Values(reply[4..].iter());
        let others = (code >= OTHER).then_some(&mut others);
        Ok(Ok((wire::state(&mut values, policy, others)?, now)))
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Gcra;

    fn gcra() -> Policy {
        Policy::Gcra(Gcra::new(7, 1_000_000, 10).unwrap())
    }

    fn batch(calls: &[(&str, u64)]) -> Batch {
        let names = Names::new("api", "default", &gcra());
        let mut batch = Batch::new();
        for (key, cost) in calls {
            batch.push(&names, Key::new(key).unwrap(), *cost);
        }
        batch
    }

    #[test]
    fn equal_keys_are_declared_once() {
        let batch = batch(&[("a", 1), ("b", 1), ("a", 1)]);
        assert_eq!(batch.keys(), ["api:default:gcra:{a}", "api:default:gcra:{b}"]);
        assert_eq!(batch.len(), 3);
    }

    #[test]
    fn one_unit_for_each_key_needs_no_list_of_calls() {
        assert_eq!(batch(&[("a", 1), ("b", 1)]).arguments(&gcra())[1].len(), 0);
        assert_eq!(batch(&[("a", 1), ("b", 2)]).arguments(&gcra())[1].len(), 52);
        assert_eq!(batch(&[("a", 1), ("a", 1)]).arguments(&gcra())[1].len(), 52);
    }

    #[test]
    fn a_reply_that_is_none_is_refused() {
        let calls = batch(&[("a", 1)]);
        let number = Value::Number;
        for reply in [
            vec![],
            vec![number(5)],
            vec![number(5), number(0), number(7)],
            vec![number(5), number(7), number(7), number(7)],
            vec![number(-5), number(0), number(7), number(7)],
            vec![number(5), number(4), number(7), number(7)],
            vec![number(5), number(8), number(7), number(7)],
            vec![number(5), number(8), number(7), number(7), number(0), number(1), number(1)],
            vec![Value::Text("5".into())],
        ] {
            assert_eq!(calls.decisions(&gcra(), &reply), Err(MalformedReply), "{reply:?}");
        }
        let unwritten = [number(5), number(4), Value::Text("OOM".into()), number(0)];
        let error = CallError::Unwritten("OOM".into());
        assert_eq!(calls.decisions(&gcra(), &unwritten), Ok(vec![Err(error)]));
    }
}
