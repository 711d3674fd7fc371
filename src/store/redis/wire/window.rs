//! The other end of `lua/fixed_window.lua`.

use super::{Left, Twin, Wire, push_double};
use crate::algorithm::{Algorithm as _, FixedWindow, WindowState};
use crate::policy::{Policy, State};

impl Wire for FixedWindow {
    fn twin(&self) -> Twin {
        Twin::FixedWindow
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, self.limit());
        push_double(request, self.window());
        push_double(request, u64::from(self.counts_refused()));
    }

    fn own_numbers(&self) -> usize {
        2
    }

    fn with_own_numbers(&self, numbers: &[u64]) -> Option<Policy> {
        let &[limit, window] = numbers else { return None };
        let own = Self::new(limit, window).ok()?.counting_refused(self.counts_refused());
        Some(Policy::FixedWindow(own))
    }

    fn width(&self) -> usize {
        2
    }

    fn others_width(&self) -> usize {
        0
    }

    fn read(&self, state: &[u64], _others: Option<&[u64]>) -> Option<Left> {
        let &[ends_ms, count] = state else { return None };
        Some(Left::State(State::Window(WindowState { ends_ms, count })))
    }
}
