//! The codec of `lua/sliding_counter/general.lua`.

use super::{Codec, KeySummary, ReplyState, ScriptAlgorithm, numbers, push_double};
use crate::algorithm::{Algorithm as _, CounterState, KeyState as _, SlidingCounter};
use crate::policy::{Policy, State};
use crate::time::{MAX_SAFE, MAX_TIME, MICROS_PER_MILLI, Micros};

impl Codec for SlidingCounter {
    fn algorithm(&self) -> ScriptAlgorithm {
        ScriptAlgorithm::SlidingCounter
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, self.limit());
        push_double(request, self.window_ms());
    }

    fn override_len(&self) -> usize {
        2
    }

    fn with_override(&self, numbers: &[u64]) -> Option<Policy> {
        let &[limit, window_ms] = numbers else { return None };
        let own = Self::new(limit, window_ms.checked_mul(MICROS_PER_MILLI)?).ok()?;
        Some(Policy::SlidingCounter(own))
    }

    fn state_len(&self) -> usize {
        3
    }

    fn other_parameters_len(&self) -> usize {
        1
    }

    fn decode(&self, state: &[u64], others: Option<&[u64]>) -> Option<ReplyState> {
        let &[ends_ms, current, previous] = state else { return None };
        let window_ms = match others {
            None => self.window_ms(),
            Some(&[window_ms]) if (1..=MAX_TIME / MICROS_PER_MILLI).contains(&window_ms) => {
                window_ms
            }
            Some(_) => return None,
        };
        if current.max(previous) > MAX_SAFE / window_ms {
            return None;
        }
        let state = CounterState { ends_ms, current, previous, window_ms };
        Some(ReplyState::State(State::Counter(Box::new(state))))
    }
}

pub(crate) fn summary(mut state: &[u8], now: Micros) -> Option<KeySummary> {
    let [ends_ms, current, previous, window_ms] = numbers(&mut state)?;
    let is_countable = state.is_empty() && window_ms > 0;
    if !is_countable || current.max(previous) > MAX_SAFE / window_ms {
        return None;
    }
    let state = CounterState { ends_ms, current, previous, window_ms };
    Some(KeySummary {
        used: state.used_at(now),
        window: Some(window_ms * MICROS_PER_MILLI),
        reset_at: Some(state.reset_at()),
        ..KeySummary::default()
    })
}
