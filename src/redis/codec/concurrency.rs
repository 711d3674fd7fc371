//! The codec of `lua/concurrency/`.

use super::{Codec, KeySummary, ReplyState, ScriptAlgorithm, numbers, push_double};
use crate::algorithm::{Algorithm as _, Concurrency, LimitStatus};
use crate::policy::Policy;
use crate::time::Micros;

impl Codec for Concurrency {
    fn algorithm(&self) -> ScriptAlgorithm {
        ScriptAlgorithm::Concurrency
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, self.limit());
        push_double(request, self.expires());
    }

    /// The limit alone: holders measure the length of their permits by the limiter's numbers.
    fn override_len(&self) -> usize {
        1
    }

    fn with_override(&self, numbers: &[u64]) -> Option<Policy> {
        let &[limit] = numbers else { return None };
        Some(Policy::Concurrency(Self::new(limit, self.expires()).ok()?))
    }

    fn state_len(&self) -> usize {
        5
    }

    fn other_parameters_len(&self) -> usize {
        0
    }

    fn decode(&self, state: &[u64], _others: Option<&[u64]>) -> Option<ReplyState> {
        let &[limit, remaining, retry_at, next_at, reset_at] = state else { return None };
        Some(ReplyState::Statuses(vec![LimitStatus {
            limit,
            capacity: limit,
            remaining,
            retry_at,
            next_at,
            reset_at,
            mark: 0,
        }]))
    }
}

pub(crate) fn summary(mut state: &[u8], now: Micros) -> Option<KeySummary> {
    let [_changed_at, _used] = numbers(&mut state)?;
    let mut count = || {
        let (count, rest) = state.split_first_chunk::<4>()?;
        state = rest;
        Some(u32::from_be_bytes(*count))
    };
    let (permits, tickets) = (count()?, count()?);
    let (mut used, mut entries, mut reset_at) = (0_u64, 0, 0);
    for _ in 0..permits {
        let [expires_at, _id, units, _length] = numbers(&mut state)?;
        if expires_at > now {
            (used, entries) = (used.checked_add(units)?, entries + 1);
        }
        reset_at = expires_at.max(reset_at);
    }
    for _ in 0..tickets {
        let [_since, _id, _units, expires_at] = numbers(&mut state)?;
        reset_at = expires_at.max(reset_at);
    }
    (state == b"P").then(|| KeySummary {
        used,
        entries: Some(entries),
        reset_at: Some(reset_at),
        ..KeySummary::default()
    })
}
