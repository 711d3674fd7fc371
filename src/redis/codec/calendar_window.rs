//! The other end of `lua/fixed_window/general.lua`, as calendars use it.

use super::{Left, Twin, Wire, push_double};
use crate::algorithm::{Algorithm as _, CalendarWindow, WindowState};
use crate::policy::{Policy, State};
use crate::redis::codec::fixed_window::take_window;
use crate::time::Micros;

impl Wire for CalendarWindow {
    fn twin(&self) -> Twin {
        Twin::FixedWindow
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, self.limit());
        // No window: what follows is a calendar's. Refused calls do not count.
        push_double(request, 0);
        push_double(request, 0);
        push_double(request, self.calendar().horizon());
    }

    fn push_time(&self, about: Micros, request: &mut Vec<u8>) {
        for boundary in self.calendar().around(about) {
            push_double(request, boundary);
        }
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn own_numbers(&self) -> usize {
        1
    }

    fn with_own_numbers(&self, numbers: &[u64]) -> Option<Policy> {
        let &[limit] = numbers else { return None };
        Some(Policy::CalendarWindow(self.with_limit(limit).ok()?))
    }

    fn width(&self) -> usize {
        2
    }

    fn take_state<'p>(&self, states: &mut &[u8], places: &'p mut [u64]) -> Option<&'p [u64]> {
        take_window(states, places)
    }

    fn others_width(&self) -> usize {
        0
    }

    fn read(&self, state: &[u64], _others: Option<&[u64]>) -> Option<Left> {
        let &[ends_ms, count] = state else { return None };
        Some(Left::State(State::Window(WindowState { ends_ms, count })))
    }
}
