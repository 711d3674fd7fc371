//! The other end of `lua/sliding_counter/general.lua`.

use super::{Left, Twin, Wire, push_double};
use crate::algorithm::{Algorithm as _, CounterState, SlidingCounter};
use crate::policy::{Policy, State};
use crate::time::{MAX_SAFE, MAX_TIME, MICROS_PER_MILLI};

impl Wire for SlidingCounter {
    fn twin(&self) -> Twin {
        Twin::SlidingCounter
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, self.limit());
        push_double(request, self.window_ms());
    }

    fn own_numbers(&self) -> usize {
        2
    }

    fn with_own_numbers(&self, numbers: &[u64]) -> Option<Policy> {
        let &[limit, window_ms] = numbers else { return None };
        let own = Self::new(limit, window_ms.checked_mul(MICROS_PER_MILLI)?).ok()?;
        Some(Policy::SlidingCounter(own))
    }

    fn width(&self) -> usize {
        3
    }

    fn others_width(&self) -> usize {
        1
    }

    fn read(&self, state: &[u64], others: Option<&[u64]>) -> Option<Left> {
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
        Some(Left::State(State::Counter(Box::new(state))))
    }
}
