//! The codec of `lua/token_bucket_interval/general.lua`.

use std::sync::Arc;

use super::{Codec, KeySummary, ReplyState, ScriptAlgorithm, numbers, push_double};
use crate::algorithm::{IntervalBucket, IntervalNumbers, IntervalState, KeyState as _, Levels};
use crate::policy::{Policy, State};
use crate::time::{MAX_SAFE, Micros};

/// The script renews a key's TTL when the time of the full bucket passes a multiple of the TTL
/// step, which is the horizon, but at least this long: a key that lives a little longer costs less
/// than a renewal.
const MIN_TTL_STEP: Micros = 1_000_000;

impl Codec for IntervalBucket {
    fn algorithm(&self) -> ScriptAlgorithm {
        ScriptAlgorithm::TokenBucketInterval
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        let IntervalNumbers { every, tokens, max_used, .. } = *self.numbers();
        let Levels { capacity, initial, .. } = self.levels();
        let ttl_step = self.horizon().max(MIN_TTL_STEP);
        for number in [every, tokens, max_used, capacity, initial, ttl_step] {
            push_double(request, number);
        }
    }

    fn override_len(&self) -> usize {
        6
    }

    fn with_override(&self, numbers: &[u64]) -> Option<Policy> {
        let &[every, tokens, max_used, capacity, initial, _] = numbers else { return None };
        let levels = Levels { capacity, initial, debt: max_used.checked_sub(capacity)? };
        Some(Policy::IntervalBucket(Self::new(levels, tokens, every).ok()?))
    }

    fn state_len(&self) -> usize {
        2
    }

    fn other_parameters_len(&self) -> usize {
        4
    }

    fn decode(&self, state: &[u64], others: Option<&[u64]>) -> Option<ReplyState> {
        let &[anchor, used] = state else { return None };
        let numbers = match others {
            None => self.numbers(),
            Some(&[every, tokens, max_used, lingers])
                if every > 0 && tokens > 0 && max_used > 0 =>
            {
                Arc::new(IntervalNumbers { every, tokens, max_used, lingers: lingers > 0 })
            }
            Some(_) => return None,
        };
        Some(ReplyState::State(State::Interval(IntervalState { anchor, used, numbers })))
    }
}

pub(crate) fn summary(mut state: &[u8], now: Micros) -> Option<KeySummary> {
    let [anchor, used, every, tokens, max_used] = numbers(&mut state)?;
    let lingers = match state {
        [] => false,
        b"l" => true,
        _ => return None,
    };
    // Other numbers belong to no policy.
    let is_countable = every > 0 && tokens > 0 && used <= max_used;
    let full = max_used.div_ceil(tokens.max(1)).checked_mul(every)?;
    if !is_countable || full > MAX_SAFE {
        return None;
    }
    let numbers = Arc::new(IntervalNumbers { every, tokens, max_used, lingers });
    let state = IntervalState { anchor, used, numbers };
    Some(KeySummary {
        used: state.used_at(now),
        max_used: Some(max_used),
        rate: Some((tokens, every)),
        reset_at: Some(state.reset_at()),
        ..KeySummary::default()
    })
}
