//! The codec of `lua/concurrency/`.

use super::{Codec, KeySummary, STATUS_LEN, ScriptAlgorithm, numbers, push_double};
use crate::algorithm::{Algorithm as _, Concurrency};
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
        STATUS_LEN
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
