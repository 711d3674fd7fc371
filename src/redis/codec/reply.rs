//! What a script answers: `lua/dispatch/batch.lua` is the other end.

use std::fmt;
use std::slice;

use crate::algorithm::Outcome;
use crate::policy::Policy;
use crate::redis::codec::{Left, Wire, doubles, wire, with_own_numbers};
use crate::time::Micros;

/// A value of a reply, as far as scripts answer with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An integer.
    Number(i64),
    /// A bulk string.
    Bytes(Vec<u8>),
}

/// Why a call of a script that was run has no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The key holds something that no limiter wrote. Nothing was charged.
    Unreadable,
    /// Redis refused to write the key, and said why. Nothing was charged.
    Unwritten(String),
    /// Redis's clock shows another time than the script was told about. Nothing was charged.
    Stale,
    /// The reply is not what the script answers. Whether units were charged is unknown.
    Malformed,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str("the key holds something that no limiter wrote"),
            Self::Unwritten(why) => write!(f, "Redis refused to write the key: {why}"),
            Self::Stale => f.write_str("Redis's clock shows another time than was expected"),
            Self::Malformed => f.write_str("the reply is not what the script answers"),
        }
    }
}

impl std::error::Error for CallError {}

/// No script says more of a state.
const MOST_DOUBLES: usize = 64;

/// Of most states no more is said: room for more would take time to clear.
const FEW_DOUBLES: usize = 4;

/// Added to an outcome's number when the state is in other numbers than the policy's.
const OTHER: u8 = 8;

/// Added to an outcome's number when the key's own numbers have decided.
const OVERRIDDEN: u8 = 16;

/// Added to an outcome's number while the key is blocked.
const BLOCKED: u8 = 32;

/// What became of a call under one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What the policy said by itself.
    pub outcome: Outcome,
    /// What stands of the state that the call left.
    pub left: Left,
    /// The policy with the key's own numbers, if those are in force, and when they end.
    pub own: Option<(Box<Policy>, Micros)>,
    /// Until when the key is blocked; 0 if it is not.
    pub blocked_until: Micros,
}

/// The outcome of a call that the script could not decide at its time.
const STALE: u8 = 5;

/// A script's reply, read call by call.
#[derive(Debug)]
pub struct Reply<'a> {
    now: Micros,
    /// What stands of the calls' states: for each some doubles.
    states: &'a [u8],
    /// By call: its outcome. Nothing if all were admitted.
    outcomes: Option<slice::Iter<'a, u8>>,
    /// What else belongs to calls and outcomes, in their order: for each some doubles.
    more: &'a [u8],
    /// By call that is unwritten: why.
    texts: slice::Iter<'a, Value>,
}

impl<'a> Reply<'a> {
    /// Begins to read. What is no reply has no states: each of its calls is malformed.
    #[must_use]
    pub fn new(values: &'a [Value]) -> Self {
        let (now, states, outcomes, more, texts) = match values {
            [
                Value::Number(now),
                Value::Bytes(states),
                Value::Bytes(outcomes),
                Value::Bytes(more),
                texts @ ..,
            ] => (u64::try_from(*now).unwrap_or(0), &states[..], &outcomes[..], &more[..], texts),
            _ => Default::default(),
        };
        let outcomes = (!outcomes.is_empty()).then(|| outcomes.iter());
        Self { now, states, outcomes, more, texts: texts.iter() }
    }

    /// The time of the decisions.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.now
    }

    /// Whether the call after so many was [`CallError::Stale`].
    #[must_use]
    pub fn is_stale(&self, calls: usize) -> bool {
        let outcomes = self.outcomes.as_ref().map(slice::Iter::as_slice);
        // The script may have added OTHER, OVERRIDDEN or BLOCKED.
        outcomes.and_then(|outcomes| outcomes.get(calls)).is_some_and(|code| code % OTHER == STALE)
    }

    /// The units that the next call, an operation, is about.
    ///
    /// # Errors
    /// [`CallError::Malformed`] if there are none.
    pub fn units(&mut self) -> Result<u64, CallError> {
        self.numbers().map(|[units]| units)
    }

    /// So many numbers that the next call, an operation, is about.
    ///
    /// # Errors
    /// [`CallError::Malformed`] if there are not so many.
    pub fn numbers<const COUNT: usize>(&mut self) -> Result<[u64; COUNT], CallError> {
        let mut places = [0; COUNT];
        doubles(&mut self.more, &mut places).ok_or(CallError::Malformed)?;
        Ok(places)
    }

    /// What became of the next call under a policy, and what stands of the state that it left.
    ///
    /// # Errors
    /// [`CallError`] if it has no decision.
    pub fn next(&mut self, policy: &Policy) -> Result<Entry, CallError> {
        let code = match &mut self.outcomes {
            Some(outcomes) => *outcomes.next().ok_or(CallError::Malformed)?,
            None => 0,
        };
        let own = match code & OVERRIDDEN {
            0 => None,
            _ => {
                let mut places = [0; MOST_DOUBLES];
                let own = self.more(&mut places, wire(policy).own_numbers())?;
                let own = with_own_numbers(policy, own).ok_or(CallError::Malformed)?;
                Some((Box::new(own), self.more(&mut [0], 1)?[0]))
            }
        };
        let wire = wire(own.as_ref().map_or(policy, |(own, _)| own));
        let is_other = code & OTHER > 0;
        let left = match wire.width() {
            ..=FEW_DOUBLES => self.left::<FEW_DOUBLES>(wire, is_other)?,
            _ => self.left::<MOST_DOUBLES>(wire, is_other)?,
        };
        let blocked_until = match code & BLOCKED {
            0 => 0,
            _ => self.more(&mut [0], 1)?[0],
        };
        let outcome = match code % OTHER {
            0 => Outcome::Admitted,
            1 => Outcome::Refused,
            2 => Outcome::Impossible,
            3 => return Err(CallError::Unreadable),
            4 => return Err(self.unwritten()),
            STALE => return Err(CallError::Stale),
            _ => return Err(CallError::Malformed),
        };
        Ok(Entry { outcome, left: left.ok_or(CallError::Malformed)?, own, blocked_until })
    }

    /// What is said of the next state, in at most so many doubles: nothing if that makes no sense.
    fn left<const MOST: usize>(
        &mut self,
        wire: &dyn Wire,
        is_other: bool,
    ) -> Result<Option<Left>, CallError> {
        let mut places = [0; MOST];
        let state = wire.take_state(&mut self.states, &mut places);
        let mut other_places;
        let others = if is_other {
            other_places = [0; MOST_DOUBLES];
            Some(self.more(&mut other_places, wire.others_width())?)
        } else {
            None
        };
        Ok(state.and_then(|state| wire.read(state, others)))
    }

    /// The next doubles of what else there is.
    fn more<'p>(&mut self, places: &'p mut [u64], count: usize) -> Result<&'p [u64], CallError> {
        let places = places.get_mut(..count).ok_or(CallError::Malformed)?;
        doubles(&mut self.more, places).ok_or(CallError::Malformed)
    }

    fn unwritten(&mut self) -> CallError {
        match self.texts.next() {
            Some(Value::Bytes(text)) => {
                CallError::Unwritten(String::from_utf8_lossy(text).into_owned())
            }
            _ => CallError::Malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Arrival, Gcra, RateNumbers};
    use crate::policy::State;

    fn gcra() -> Policy {
        Policy::Gcra(Gcra::new(7, 1_000_000, 10).unwrap())
    }

    fn bytes(doubles: &[f64]) -> Value {
        Value::Bytes(doubles.iter().flat_map(|double| double.to_be_bytes()).collect())
    }

    fn reply(states: &[f64], outcomes: &[u8], others: &[f64]) -> Vec<Value> {
        vec![Value::Number(5), bytes(states), Value::Bytes(outcomes.to_vec()), bytes(others)]
    }

    fn arrival(read: Result<Entry, CallError>) -> (Outcome, Arrival, RateNumbers) {
        match read.unwrap() {
            Entry {
                outcome,
                left: Left::State(State::Rate(state)),
                own: None,
                blocked_until: 0,
            } => (outcome, state.arrival, *state.numbers),
            other => panic!("{other:?} is no rate"),
        }
    }

    #[test]
    fn states_and_what_belongs_to_them_are_read_in_order() {
        let mut values = reply(
            &[9., 1., 0., 0., 9., 2., 0., 0., 9., 3.],
            &[0, 4, 9, 3, 2],
            &[5., 3., 1., 1., 8.],
        );
        values.push(Value::Bytes(b"OOM".to_vec()));
        let mut reply = Reply::new(&values);
        assert_eq!(reply.now(), 5);
        let own =
            RateNumbers { period: 1_000_000, units: 7, burst: 10, lingers: false, booked_until: 0 };
        let other = RateNumbers { period: 5, units: 3, burst: 1, lingers: true, booked_until: 8 };
        let arrival_of = |part| Arrival { micros: 9, part };
        assert_eq!(arrival(reply.next(&gcra())), (Outcome::Admitted, arrival_of(1), own));
        assert_eq!(reply.next(&gcra()), Err(CallError::Unwritten("OOM".into())));
        assert_eq!(arrival(reply.next(&gcra())), (Outcome::Refused, arrival_of(2), other));
        assert_eq!(reply.next(&gcra()), Err(CallError::Unreadable));
        assert_eq!(arrival(reply.next(&gcra())), (Outcome::Impossible, arrival_of(3), own));
        assert_eq!(reply.next(&gcra()), Err(CallError::Malformed));
    }

    #[test]
    fn no_outcomes_say_that_all_were_admitted() {
        let values = reply(&[9., 1., 9., 2.], &[], &[]);
        let mut reply = Reply::new(&values);
        for part in [1, 2] {
            let (outcome, arrival, _) = arrival(reply.next(&gcra()));
            assert_eq!((outcome, arrival.part), (Outcome::Admitted, part));
        }
        assert_eq!(reply.next(&gcra()), Err(CallError::Malformed));
    }

    #[test]
    fn what_is_beside_a_state_is_read_after_an_operations_units() {
        let numbers = [1_000_000., 5., 7., 7., 7., 200_000., 0., 1_400_000., 0., 1_400_000.];
        let more: Vec<f64> = [3.].into_iter().chain(numbers).chain([88., 99.]).collect();
        let values = reply(&[9., 1.], &[1 + OVERRIDDEN + BLOCKED], &more);
        let mut reply = Reply::new(&values);
        assert_eq!(reply.units(), Ok(3));
        let entry = reply.next(&gcra()).unwrap();
        let own = Box::new(Policy::Gcra(Gcra::new(5, 1_000_000, 7).unwrap()));
        assert_eq!(entry.own, Some((own, 88)));
        assert_eq!((entry.outcome, entry.blocked_until), (Outcome::Refused, 99));
        assert_eq!(reply.units(), Err(CallError::Malformed));
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for values in [
            vec![],
            vec![Value::Number(5)],
            vec![Value::Bytes(vec![]); 4],
            reply(&[], &[0], &[]),
            reply(&[9.], &[], &[]),
            reply(&[-9., 0.], &[], &[]),
            reply(&[9.5, 0.], &[], &[]),
            reply(&[f64::NAN, 0.], &[], &[]),
            reply(&[1e300, 0.], &[], &[]),
            reply(&[9., 0.], &[7], &[]),
            reply(&[9., 0.], &[8], &[]),
            reply(&[9., 0.], &[8], &[0., 1., 1., 0., 0.]),
            reply(&[9., 0.], &[4], &[]),
            reply(&[9., 0.], &[BLOCKED], &[]),
            reply(&[9., 0.], &[OVERRIDDEN], &[0.; 10]),
        ] {
            assert_eq!(Reply::new(&values).next(&gcra()), Err(CallError::Malformed), "{values:?}");
        }
    }
}
