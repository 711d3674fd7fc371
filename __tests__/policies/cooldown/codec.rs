//! The codec of the twin in Lua.

use super::{Codec, KeySummary, ReplyState, ScriptAlgorithm, numbers, push_double};
use crate::algorithm::{Algorithm as _, Cooldown, WindowState};
use crate::policy::{Policy, State};
use crate::time::{MAX_SAFE, MICROS_PER_MILLI, Micros};

impl Codec for Cooldown {
    fn algorithm(&self) -> ScriptAlgorithm {
        ScriptAlgorithm::Cooldown
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, self.limit());
        push_double(request, self.pause());
    }

    fn override_len(&self) -> usize {
        2
    }

    fn with_override(&self, numbers: &[u64]) -> Option<Policy> {
        let &[limit, pause] = numbers else { return None };
        Some(Policy::Cooldown(Self::new(limit, pause).ok()?))
    }

    fn state_len(&self) -> usize {
        2
    }

    fn other_parameters_len(&self) -> usize {
        0
    }

    fn decode(&self, state: &[u64], _others: Option<&[u64]>) -> Option<ReplyState> {
        let &[ends_ms, count] = state else { return None };
        Some(ReplyState::State(State::Window(WindowState { ends_ms, count })))
    }
}

/// Summarizes a stored state at the time `now`. Returns `None` for other bytes.
pub(crate) fn summary(mut state: &[u8], now: Micros) -> Option<KeySummary> {
    let [ends_ms, count] = numbers(&mut state).filter(|_| state.is_empty())?;
    let ends_at = (ends_ms <= MAX_SAFE / MICROS_PER_MILLI).then_some(ends_ms * MICROS_PER_MILLI)?;
    let used = if ends_at > now { count } else { 0 };
    Some(KeySummary { used, reset_at: Some(ends_at), ..KeySummary::default() })
}
