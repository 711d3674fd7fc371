//! The codec of `lua/fixed_window/general.lua` for calendar windows.

use super::{Codec, ReplyState, ScriptAlgorithm, push_double};
use crate::algorithm::{Algorithm as _, CalendarWindow, WindowState};
use crate::policy::{Policy, State};
use crate::redis::codec::fixed_window::take_window;
use crate::time::Micros;

impl Codec for CalendarWindow {
    fn algorithm(&self) -> ScriptAlgorithm {
        ScriptAlgorithm::FixedWindow
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, self.limit());
        // A window length of 0 marks a calendar window. The second 0: refused calls do not count.
        push_double(request, 0);
        push_double(request, 0);
        push_double(request, self.calendar().horizon());
    }

    fn push_time(&self, estimated_now: Micros, request: &mut Vec<u8>) {
        for boundary in self.calendar().around(estimated_now) {
            push_double(request, boundary);
        }
    }

    fn depends_on_time(&self) -> bool {
        true
    }

    fn override_len(&self) -> usize {
        1
    }

    fn with_override(&self, numbers: &[u64]) -> Option<Policy> {
        let &[limit] = numbers else { return None };
        Some(Policy::CalendarWindow(self.with_limit(limit).ok()?))
    }

    fn state_len(&self) -> usize {
        2
    }

    fn take_state<'p>(&self, states: &mut &[u8], buffer: &'p mut [u64]) -> Option<&'p [u64]> {
        take_window(states, buffer)
    }

    fn decode(&self, state: &[u64], _others: Option<&[u64]>) -> Option<ReplyState> {
        let &[ends_ms, count] = state else { return None };
        Some(ReplyState::State(State::Window(WindowState { ends_ms, count })))
    }
}
