//! Decodes the reply of the script that decides calls. `lua/dispatch/batch.lua` encodes it.

use std::fmt;
use std::slice;

use crate::algorithm::Outcome;
use crate::policy::Policy;
use crate::policy::owed::Owed;
use crate::protocol::outcome;
use crate::redis::codec::{Codec, ReplyState, codec, doubles};
use crate::time::{MAX_TIME, Micros};

/// A value in a script's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyValue {
    /// An integer.
    Number(i64),
    /// A bulk string.
    Bytes(Vec<u8>),
}

/// The reason why a call has no decision although the script ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The key holds a value that no limiter wrote. Nothing was charged.
    Unreadable,
    /// Redis refused to write the key, with this error. Nothing was charged.
    Unwritten(String),
    /// The key has the most holds and remembered calls. Nothing was charged.
    TooManyHolds,
    /// Redis's clock is outside the times that the script received. Nothing was charged.
    Stale,
    /// The reply is invalid. Whether units were charged is unknown.
    Malformed,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str("the key holds a value that no limiter wrote"),
            Self::Unwritten(why) => write!(f, "Redis refused to write the key: {why}"),
            Self::TooManyHolds => f.write_str("the key has 10,000 open holds and remembered calls"),
            Self::Stale => f.write_str("Redis's clock differs from the expected time"),
            Self::Malformed => f.write_str("the script's reply is invalid"),
        }
    }
}

/// The maximum number of doubles of a state in a reply.
const MAX_STATE_DOUBLES: usize = 64;

/// Most states have at most this many doubles. A larger buffer would take time to clear.
const COMMON_STATE_DOUBLES: usize = 4;

/// The reply to a call under one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyReply {
    /// The outcome of this policy by itself.
    pub outcome: Outcome,
    /// The state after the call.
    pub state: ReplyState,
    /// The policy of the override in force and the override's end, in epoch microseconds.
    pub policy_override: Option<(Box<Policy>, Micros)>,
    /// The end of the key's block, in epoch microseconds; 0 if the key is not blocked.
    pub blocked_until: Micros,
    /// The number of the ban's length if the block is a ban, else 0.
    pub ban_step: u64,
    /// The units that the key owes.
    pub owed: Owed,
    /// The mark of the key if this policy admitted the call, else 0.
    pub mark: u64,
}

/// Reads a script's reply, call by call.
#[derive(Debug)]
pub struct ReplyReader<'a> {
    now: Micros,
    /// The doubles of the states, in call order.
    states: &'a [u8],
    /// The outcome codes, in call order. `None` if all calls were admitted.
    outcomes: Option<slice::Iter<'a, u8>>,
    /// The doubles of operations, overrides, other parameters and blocks, in call order.
    extra: &'a [u8],
    /// The error texts of the unwritten calls, in call order.
    texts: slice::Iter<'a, ReplyValue>,
}

impl<'a> ReplyReader<'a> {
    /// A reader at the first call. If the reply is invalid, each of its calls is malformed.
    #[must_use]
    pub fn new(values: &'a [ReplyValue]) -> Self {
        let (now, states, outcomes, extra, texts) = match values {
            [
                ReplyValue::Number(now),
                ReplyValue::Bytes(states),
                ReplyValue::Bytes(outcomes),
                ReplyValue::Bytes(extra),
                texts @ ..,
            ] => (time(*now), &states[..], &outcomes[..], &extra[..], texts),
            _ => Default::default(),
        };
        let outcomes = (!outcomes.is_empty()).then(|| outcomes.iter());
        Self { now, states, outcomes, extra, texts: texts.iter() }
    }

    /// The time of the decisions, in epoch microseconds.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.now
    }

    /// Whether the outcome with this index was [`CallError::Stale`].
    #[must_use]
    pub fn is_stale(&self, index: usize) -> bool {
        let outcomes = self.outcomes.as_ref().map(slice::Iter::as_slice);
        // The script may have added OTHER_NUMBERS, OVERRIDDEN, BLOCKED, OWED or MARKED.
        outcomes
            .and_then(|outcomes| outcomes.get(index))
            .is_some_and(|code| code % outcome::OTHER_NUMBERS == outcome::STALE)
    }

    /// Sets the time of the next decisions, for a call that was decided earlier.
    pub(crate) fn set_time(&mut self, now: Micros) {
        self.now = now.min(MAX_TIME);
    }

    /// Reads `COUNT` numbers of the next call, an operation.
    ///
    /// # Errors
    /// [`CallError::Malformed`] if the reply has fewer doubles.
    pub fn numbers<const COUNT: usize>(&mut self) -> Result<[u64; COUNT], CallError> {
        let mut buffer = [0; COUNT];
        doubles(&mut self.extra, &mut buffer).ok_or(CallError::Malformed)?;
        Ok(buffer)
    }

    /// Reads the reply to the next call under a policy.
    ///
    /// # Errors
    /// [`CallError`] if the call has no decision.
    pub fn next(&mut self, policy: &Policy) -> Result<PolicyReply, CallError> {
        let code = match &mut self.outcomes {
            Some(outcomes) => *outcomes.next().ok_or(CallError::Malformed)?,
            None => outcome::ADMITTED,
        };
        let policy_override = match code & outcome::OVERRIDDEN {
            0 => None,
            _ => {
                let mut buffer = [0; MAX_STATE_DOUBLES];
                let own = self.extra(&mut buffer, codec(policy).override_len())?;
                let own = codec(policy).with_override(own).ok_or(CallError::Malformed)?;
                Some((Box::new(own), self.numbers::<1>()?[0]))
            }
        };
        let codec = codec(policy_override.as_ref().map_or(policy, |(own, _)| own));
        let is_other = code & outcome::OTHER_NUMBERS > 0;
        let state = match codec.state_len() {
            ..=COMMON_STATE_DOUBLES => self.state::<COMMON_STATE_DOUBLES>(codec, is_other)?,
            _ => self.state::<MAX_STATE_DOUBLES>(codec, is_other)?,
        };
        let (block, owed, mark) = match code & (outcome::BLOCKED | outcome::OWED | outcome::MARKED)
        {
            0 => Default::default(),
            _ => self.details(code)?,
        };
        let [blocked_until, ban_step] = block;
        let outcome = match code % outcome::OTHER_NUMBERS {
            outcome::ADMITTED => Outcome::Admitted,
            outcome::REFUSED => Outcome::Refused,
            outcome::IMPOSSIBLE => Outcome::Impossible,
            outcome::UNREADABLE => return Err(CallError::Unreadable),
            outcome::UNWRITTEN => return Err(self.unwritten()),
            outcome::TOO_MANY_HOLDS => return Err(CallError::TooManyHolds),
            outcome::STALE => return Err(CallError::Stale),
            _ => return Err(CallError::Malformed),
        };
        let state = state.ok_or(CallError::Malformed)?;
        Ok(PolicyReply { outcome, state, policy_override, blocked_until, ban_step, owed, mark })
    }

    /// Reads the end of a block with the step of a ban, the owed units, and the mark, if the code
    /// announces them.
    #[cold]
    fn details(&mut self, code: u8) -> Result<([u64; 2], Owed, u64), CallError> {
        let block = if code & outcome::BLOCKED > 0 { self.numbers()? } else { [0; 2] };
        let owed = if code & outcome::OWED > 0 { self.numbers()? } else { [0; 4] };
        let [mark] = if code & outcome::MARKED > 0 { self.numbers()? } else { [0] };
        let [units, at, capacity, period] = owed;
        Ok((block, Owed { units, at, capacity, period }, mark))
    }

    /// Reads the next state, of at most `MAX` doubles. `None` if it is invalid.
    fn state<const MAX: usize>(
        &mut self,
        codec: &dyn Codec,
        is_other: bool,
    ) -> Result<Option<ReplyState>, CallError> {
        let mut buffer = [0; MAX];
        let state = codec.take_state(&mut self.states, &mut buffer);
        let mut other_buffer;
        let others = if is_other {
            other_buffer = [0; MAX_STATE_DOUBLES];
            Some(self.extra(&mut other_buffer, codec.other_parameters_len())?)
        } else {
            None
        };
        Ok(state.and_then(|state| codec.decode(state, others)))
    }

    fn extra<'p>(&mut self, buffer: &'p mut [u64], count: usize) -> Result<&'p [u64], CallError> {
        let buffer = buffer.get_mut(..count).ok_or(CallError::Malformed)?;
        doubles(&mut self.extra, buffer).ok_or(CallError::Malformed)
    }

    fn unwritten(&mut self) -> CallError {
        match self.texts.next() {
            Some(ReplyValue::Bytes(text)) => {
                CallError::Unwritten(String::from_utf8_lossy(text).into_owned())
            }
            _ => CallError::Malformed,
        }
    }
}

/// The time of a reply. Like every clock, a server's shows at most [`MAX_TIME`].
fn time(now: i64) -> Micros {
    u64::try_from(now).unwrap_or(0).min(MAX_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Arrival, Gcra, Levels, RateNumbers, TokenBucket};
    use crate::policy::State;

    fn gcra() -> Policy {
        Policy::Gcra(Gcra::new(7, 1_000_000, 10).unwrap())
    }

    fn bytes(doubles: &[f64]) -> ReplyValue {
        ReplyValue::Bytes(doubles.iter().flat_map(|double| double.to_be_bytes()).collect())
    }

    fn reply(states: &[f64], outcomes: &[u8], others: &[f64]) -> Vec<ReplyValue> {
        vec![
            ReplyValue::Number(5),
            bytes(states),
            ReplyValue::Bytes(outcomes.to_vec()),
            bytes(others),
        ]
    }

    fn arrival(read: Result<PolicyReply, CallError>) -> (Outcome, Arrival, RateNumbers) {
        match read.unwrap() {
            PolicyReply {
                outcome,
                state: ReplyState::State(State::Rate(state)),
                policy_override: None,
                blocked_until: 0,
                ban_step: 0,
                owed: Owed { units: 0, .. },
                mark: 0,
            } => (outcome, state.arrival, *state.numbers),
            other => panic!("{other:?} is not a rate"),
        }
    }

    #[test]
    fn states_and_other_parameters_are_read_in_order() {
        let mut values = reply(
            &[9., 1., 0., 0., 9., 2., 0., 0., 9., 3.],
            &[0, 4, 9, 3, 2],
            &[5., 3., 1., 1., 8.],
        );
        values.push(ReplyValue::Bytes(b"OOM".to_vec()));
        let mut reply = ReplyReader::new(&values);
        assert_eq!(reply.now(), 5);
        let own = RateNumbers {
            period: 1_000_000,
            units: 7,
            burst: 10,
            lingers: false,
            scheduled_until: 0,
        };
        let other =
            RateNumbers { period: 5, units: 3, burst: 1, lingers: true, scheduled_until: 8 };
        let arrival_of = |part| Arrival { micros: 9, part };
        assert_eq!(arrival(reply.next(&gcra())), (Outcome::Admitted, arrival_of(1), own));
        assert_eq!(reply.next(&gcra()), Err(CallError::Unwritten("OOM".into())));
        assert_eq!(arrival(reply.next(&gcra())), (Outcome::Refused, arrival_of(2), other));
        assert_eq!(reply.next(&gcra()), Err(CallError::Unreadable));
        assert_eq!(arrival(reply.next(&gcra())), (Outcome::Impossible, arrival_of(3), own));
        assert_eq!(reply.next(&gcra()), Err(CallError::Malformed));
    }

    #[test]
    fn without_outcomes_all_calls_were_admitted() {
        let values = reply(&[9., 1., 9., 2.], &[], &[]);
        let mut reply = ReplyReader::new(&values);
        for part in [1, 2] {
            let (outcome, arrival, _) = arrival(reply.next(&gcra()));
            assert_eq!((outcome, arrival.part), (Outcome::Admitted, part));
        }
        assert_eq!(reply.next(&gcra()), Err(CallError::Malformed));
    }

    #[test]
    fn overrides_blocks_bans_and_owed_units_follow_an_operations_units() {
        let numbers = [1_000_000., 5., 7., 7., 7., 200_000., 0., 1_400_000., 0., 1_400_000., 300.];
        let more: Vec<f64> =
            [3.].into_iter().chain(numbers).chain([88., 99., 2., 4., 5., 6., 8., 7.]).collect();
        let code = 1 + outcome::OVERRIDDEN + outcome::BLOCKED + outcome::OWED + outcome::MARKED;
        let values = reply(&[9., 1.], &[code], &more);
        let mut reply = ReplyReader::new(&values);
        assert_eq!(reply.numbers(), Ok([3]));
        let entry = reply.next(&gcra()).unwrap();
        let own = TokenBucket::with_levels(Levels::full(7), 5, 1_000_000).unwrap();
        let own = Box::new(Policy::TokenBucket(own.with_limit(300)));
        assert_eq!(entry.policy_override, Some((own, 88)));
        assert_eq!((entry.outcome, entry.blocked_until), (Outcome::Refused, 99));
        assert_eq!((entry.ban_step, entry.mark), (2, 7));
        assert_eq!(entry.owed, Owed { units: 4, at: 5, capacity: 6, period: 8 });
        assert_eq!(reply.numbers::<1>(), Err(CallError::Malformed));
    }

    #[test]
    fn invalid_replies_are_malformed() {
        for values in [
            vec![],
            vec![ReplyValue::Number(5)],
            vec![ReplyValue::Bytes(vec![]); 4],
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
            reply(&[9., 0.], &[outcome::BLOCKED], &[]),
            reply(&[9., 0.], &[outcome::BLOCKED], &[1.]),
            reply(&[9., 0.], &[outcome::OWED], &[1., 1., 1.]),
            reply(&[9., 0.], &[outcome::MARKED], &[]),
            reply(&[9., 0.], &[outcome::OVERRIDDEN], &[0.; 11]),
        ] {
            assert_eq!(
                ReplyReader::new(&values).next(&gcra()),
                Err(CallError::Malformed),
                "{values:?}"
            );
        }
    }

    /// A server may send any time. The engine's sums of two times must stay exact.
    #[test]
    fn the_time_of_a_reply_is_at_most_the_last_time() {
        for (sent, expected) in [(-1, 0), (7, 7), (i64::MAX, MAX_TIME)] {
            let mut values = reply(&[], &[], &[]);
            values[0] = ReplyValue::Number(sent);
            assert_eq!(ReplyReader::new(&values).now(), expected);
        }
    }
}
