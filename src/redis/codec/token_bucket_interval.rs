//! The other end of `lua/token_bucket_interval/general.lua`.

use std::sync::Arc;

use super::{Left, Twin, Wire, push_double};
use crate::algorithm::{IntervalBucket, IntervalNumbers, IntervalState, Levels};
use crate::policy::{Policy, State};
use crate::time::Micros;

/// A TTL is set anew when the time at which the bucket is full passes a multiple of this, the
/// horizon; short ones are stretched, because a key that lives a little longer costs less than a
/// TTL.
const SHORTEST_TTL_STEP: Micros = 1_000_000;

impl Wire for IntervalBucket {
    fn twin(&self) -> Twin {
        Twin::TokenBucketInterval
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        let IntervalNumbers { every, tokens, most, .. } = *self.numbers();
        let Levels { capacity, initial, .. } = self.levels();
        let ttl_step = self.horizon().max(SHORTEST_TTL_STEP);
        for number in [every, tokens, most, capacity, initial, ttl_step] {
            push_double(request, number);
        }
    }

    fn own_numbers(&self) -> usize {
        6
    }

    fn with_own_numbers(&self, numbers: &[u64]) -> Option<Policy> {
        let &[every, tokens, most, capacity, initial, _] = numbers else { return None };
        let levels = Levels { capacity, initial, debt: most.checked_sub(capacity)? };
        Some(Policy::IntervalBucket(Self::new(levels, tokens, every).ok()?))
    }

    fn width(&self) -> usize {
        2
    }

    fn others_width(&self) -> usize {
        4
    }

    fn read(&self, state: &[u64], others: Option<&[u64]>) -> Option<Left> {
        let &[anchor, used] = state else { return None };
        let numbers = match others {
            None => self.numbers(),
            Some(&[every, tokens, most, lingers]) if every > 0 && tokens > 0 && most > 0 => {
                Arc::new(IntervalNumbers { every, tokens, most, lingers: lingers > 0 })
            }
            Some(_) => return None,
        };
        Some(Left::State(State::Interval(IntervalState { anchor, used, numbers })))
    }
}
