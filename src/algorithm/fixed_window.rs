//! The fixed window, opened by its first call.
//!
//! **Law:** at most limit units per window, and at most 2·limit − 1 in any rolling window of the
//! same length (half-open, [s, s + window)): a rolling window with units of two windows cannot
//! contain the call that opened the earlier one.
//!
//! The first call admitted after the end of a window opens the next one; windows do not follow the
//! clock's grid. A window ends on a whole millisecond, so it lasts as long as configured or up to 1
//! ms longer. The state stores the window's end: no decision depends on a store's expiry.
//!
//! If refused calls count, a call that does not fit uses up the window. Attempts are counted like
//! units, but at most up to the limit, so that a caller who keeps trying is locked out for no
//! longer than the window. The law still holds. A call that can never fit counts nothing.
//!
//! **Refunds.** Units come back while the window that they were taken from is open, at most as many
//! as it counts. The law holds of the admitted units less the refunded ones: an open window counts
//! at least one unit.
//!
//! **Changed numbers and clock steps.** A window's count is compared with the limit of the policy
//! that decides. A window keeps its original end, unless that is later than the end of a window
//! opened now. In that case a longer window wrote it, or the clock has stepped back: its end moves
//! to that of a window opened now, and its count stays. So each window admits at most the largest
//! limit of the policies that use it, and lasts at least the shortest of their windows. The second
//! half of the law holds for these two numbers, because a rolling window that extends beyond a
//! moved end begins after the move.
//!
//! Source: the fixed window of the Go + Redis limiter and the PHP/Lua counter. Differences: a
//! refused call counts nothing unless the policy asks for it, the cost is added before it is
//! compared, and no window depends on the expiry of a key.

use super::{
    Algorithm, ChargeRecord, InvalidNumber, KeyState, Outcome, Rewrites, checked_length,
    checked_units,
};
use crate::time::{MICROS_PER_MILLI, Micros, whole_millis};

/// The state of a key: the end of its window, and the units admitted in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowState {
    /// The end of the window in milliseconds since the Unix epoch. The window is open before this
    /// time.
    pub ends_ms: u64,
    /// Units admitted in the window.
    pub count: u64,
}

impl WindowState {
    fn ends(self) -> Micros {
        self.ends_ms.saturating_mul(MICROS_PER_MILLI)
    }

    /// The units that count at the time `now`.
    #[inline]
    pub(super) fn used(self, now: Micros) -> u64 {
        if self.ends() > now { self.count } else { 0 }
    }

    /// [`Algorithm::charge`] for a window of `limit` units. `new_end` is the end, in milliseconds,
    /// of a window opened now. No window opened by now ends later than `latest`.
    #[inline]
    pub(super) fn charge(
        &mut self,
        limit: u64,
        now: Micros,
        cost: u64,
        latest: Micros,
        new_end: impl Fn() -> u64,
    ) -> Outcome {
        if self.ends() > latest {
            // A longer window wrote the state, or the clock has stepped back.
            self.ends_ms = new_end();
        }
        let outcome = self.outcome(limit, now, cost);
        if cost > 0 && outcome == Outcome::Admitted {
            let open = self.ends() > now;
            let count = self.used(now) + cost;
            *self = Self { ends_ms: if open { self.ends_ms } else { new_end() }, count };
        }
        outcome
    }

    /// [`Algorithm::outcome`] under a limit.
    #[inline]
    pub(super) fn outcome(self, limit: u64, now: Micros, cost: u64) -> Outcome {
        match self.used(now).saturating_add(cost) {
            _ if cost == 0 => Outcome::Admitted,
            _ if cost > limit => Outcome::Impossible,
            count if count > limit => Outcome::Refused,
            _ => Outcome::Admitted,
        }
    }

    /// [`Algorithm::refund`]: only into the window that the units were taken from, while it is
    /// open.
    ///
    /// A window whose units are all refunded becomes unopened. If it stayed open, the units of two
    /// windows could meet: take 1 and refund it, take the limit at the window's end, and take the
    /// limit again.
    pub(super) fn refund(&mut self, now: Micros, units: u64, taken: ChargeRecord) -> u64 {
        // The decision reported the end in whole milliseconds after `taken.at`, rounded up.
        let is_same = self.ends_ms == taken.reset_at / MICROS_PER_MILLI + taken.mark;
        let given = if is_same { units.min(self.used(now)) } else { 0 };
        if given > 0 {
            let count = self.count - given;
            *self = Self { ends_ms: if count > 0 { self.ends_ms } else { 0 }, count };
        }
        given
    }
}

impl KeyState for WindowState {
    fn reset_at(&self) -> Micros {
        self.ends()
    }

    fn drains(&self) -> bool {
        false
    }
}

/// `limit` units in each window of a fixed length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedWindow {
    limit: u64,
    window: Micros,
    counts_refused: bool,
}

impl FixedWindow {
    /// `limit` units per `window`.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a number that is 0 or too large to count exactly.
    pub fn new(limit: u64, window: Micros) -> Result<Self, InvalidNumber> {
        checked_units("limit", limit)?;
        checked_length("window", window)?;
        Ok(Self { limit, window, counts_refused: false })
    }

    /// The same window, where a refused call uses up the window if `counts_refused`.
    #[must_use]
    pub fn counting_refused(self, counts_refused: bool) -> Self {
        Self { counts_refused, ..self }
    }

    /// Whether a refused call uses up the window.
    #[must_use]
    pub fn counts_refused(&self) -> bool {
        self.counts_refused
    }

    /// The length of a window.
    #[must_use]
    pub fn window(&self) -> Micros {
        self.window
    }

    /// [`Algorithm::refund`]. `early` is the number of units in the window that are known to have been
    /// taken at least a window's length before its end; 0 if it is unknown.
    ///
    /// One such unit must stay, or the window begins anew now, with the units that remain: see the
    /// law.
    pub(crate) fn refund_with(
        &self,
        state: &mut WindowState,
        now: Micros,
        units: u64,
        taken: ChargeRecord,
        early: &mut u64,
    ) -> u64 {
        let given = state.refund(now, units, taken);
        if given == 0 || state.count == 0 {
            *early = if given == 0 { *early } else { 0 };
            return given;
        }
        if self.end_from(taken.at) <= state.ends_ms {
            let left = early.saturating_sub(given);
            let begins_anew = left == 0 && taken.kept == 0 && self.end_from(now) > state.ends_ms;
            (state.ends_ms, *early) = match begins_anew {
                true => (self.end_from(now), state.count),
                false => (state.ends_ms, left),
            };
        }
        given
    }

    /// The end of a window that opens at `now`.
    fn end_from(&self, now: Micros) -> u64 {
        whole_millis(now + self.window)
    }
}

impl Algorithm for FixedWindow {
    type State = WindowState;

    #[inline]
    fn initial_state(&self) -> WindowState {
        WindowState { ends_ms: 0, count: 0 }
    }

    #[inline]
    fn capacity(&self) -> u64 {
        self.limit
    }

    #[inline]
    fn charge(&self, state: &mut WindowState, now: Micros, cost: u64) -> Outcome {
        let new_end = self.end_from(now);
        let latest = new_end.saturating_mul(MICROS_PER_MILLI);
        let outcome = state.charge(self.limit, now, cost, latest, || new_end);
        if self.counts_refused && outcome == Outcome::Refused {
            state.count = state.count.max(self.limit);
        }
        outcome
    }

    fn outcome(&self, state: &WindowState, now: Micros, cost: u64) -> Outcome {
        state.outcome(self.limit, now, cost)
    }

    fn refund(&self, state: &mut WindowState, now: Micros, units: u64, taken: ChargeRecord) -> u64 {
        self.refund_with(state, now, units, taken, &mut 0)
    }

    #[inline]
    fn rewrites(&self, state: &WindowState, now: Micros) -> Rewrites {
        if state.ends_ms > self.end_from(now) { Rewrites::Always } else { Rewrites::Never }
    }

    #[inline]
    fn remaining(&self, state: &WindowState, now: Micros) -> u64 {
        self.limit.saturating_sub(state.used(now))
    }

    #[inline]
    fn retry_at(&self, state: &WindowState, now: Micros, _cost: u64) -> Micros {
        state.ends().max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(limit: u64, window: Micros) -> FixedWindow {
        FixedWindow::new(limit, window).unwrap()
    }

    #[test]
    fn the_first_admitted_call_opens_the_window() {
        let two = window(2, 1_000_000);
        let mut state = two.initial_state();
        assert_eq!(two.charge(&mut state, 123_000, 1), Outcome::Admitted);
        assert_eq!(state, WindowState { ends_ms: 1_123, count: 1 });
        assert_eq!(two.charge(&mut state, 1_122_999, 1), Outcome::Admitted);
        assert_eq!(two.charge(&mut state, 1_122_999, 1), Outcome::Refused);
        assert_eq!(two.charge(&mut state, 1_123_000, 1), Outcome::Admitted);
        assert_eq!(state, WindowState { ends_ms: 2_123, count: 1 });
    }

    #[test]
    fn a_call_that_can_never_fit_opens_nothing() {
        let two = window(2, 1_000_000);
        let mut state = two.initial_state();
        assert_eq!(two.charge(&mut state, 0, 3), Outcome::Impossible);
        assert_eq!(state, two.initial_state());
    }

    #[test]
    fn a_window_is_never_shorter_than_asked() {
        let one = window(1, 1_000_000);
        let mut state = one.initial_state();
        one.charge(&mut state, 1, 1);
        assert_eq!(state.ends_ms, 1_001);
    }

    #[test]
    fn the_cost_is_added_before_it_is_compared() {
        let ten = window(10, 1_000_000);
        let mut state = WindowState { ends_ms: 1_000, count: 9 };
        assert_eq!(ten.charge(&mut state, 0, 2), Outcome::Refused);
        assert_eq!(state.count, 9, "a refused call counts nothing");
        assert_eq!(ten.charge(&mut state, 0, 1), Outcome::Admitted);
    }

    // promise: open-window-keeps-end
    #[test]
    fn a_window_that_ends_too_late_keeps_its_count_and_ends_one_window_from_now() {
        let ten = window(10, 1_000_000);
        // The state of a window of a day, or after a clock step.
        let mut state = WindowState { ends_ms: 86_401_000, count: 7 };
        assert_eq!(ten.charge(&mut state, 0, 4), Outcome::Refused);
        assert_eq!(state, WindowState { ends_ms: 1_000, count: 7 });
        assert_eq!(ten.charge(&mut state, 500_000, 3), Outcome::Admitted);
        assert_eq!(state, WindowState { ends_ms: 1_000, count: 10 }, "the end has moved once");
        assert_eq!(ten.charge(&mut state, 999_999, 1), Outcome::Refused);
        assert_eq!(ten.charge(&mut state, 1_000_000, 10), Outcome::Admitted);
    }

    #[test]
    fn a_smaller_limit_keeps_the_window_and_refuses_until_it_ends() {
        let ten = window(10, 1_000_000);
        let mut state = WindowState { ends_ms: 1_000, count: 50 };
        assert_eq!(ten.charge(&mut state, 10, 1), Outcome::Refused);
        assert_eq!(state, WindowState { ends_ms: 1_000, count: 50 });
        assert_eq!(ten.remaining(&state, 10), 0);
        assert_eq!(ten.retry_at(&state, 10, 1), 1_000_000);
    }

    #[test]
    fn a_refused_call_uses_up_the_window_where_it_counts() {
        let ten = window(10, 1_000_000).counting_refused(true);
        let mut state = WindowState { ends_ms: 1_000, count: 7 };
        assert_eq!(ten.charge(&mut state, 0, 11), Outcome::Impossible);
        assert_eq!(state.count, 7);
        assert_eq!(ten.charge(&mut state, 0, 4), Outcome::Refused);
        assert_eq!(state, WindowState { ends_ms: 1_000, count: 10 });
        assert_eq!(ten.charge(&mut state, 0, 1), Outcome::Refused);
        assert_eq!(state.count, 10, "at most the limit");
        assert_eq!(ten.charge(&mut state, 1_000_000, 1), Outcome::Admitted);
        // The count of a larger limit is not reduced.
        let mut state = WindowState { ends_ms: 1_000, count: 50 };
        assert_eq!(ten.charge(&mut state, 0, 1), Outcome::Refused);
        assert_eq!(state.count, 50);
    }

    #[test]
    fn units_come_back_only_into_the_window_that_they_were_taken_from() {
        let ten = window(10, 1_000_000);
        let mut state = ten.initial_state();
        ten.charge(&mut state, 1, 4);
        // A decision reports the end in whole milliseconds after its time, rounded up.
        let taken = ChargeRecord { at: 1, reset_at: 1_001_001, cost: 4, used: 0, kept: 1, mark: 0 };
        assert_eq!(ten.refund(&mut state, 500_000, 3, taken), 3);
        assert_eq!(state, WindowState { ends_ms: 1_001, count: 1 });
        assert_eq!(ten.refund(&mut state.clone(), 1_001_000, 1, taken), 0, "it is closed");
        ten.charge(&mut state, 1_001_000, 10);
        assert_eq!(ten.refund(&mut state, 1_001_000, 1, taken), 0, "it is another");
        assert_eq!(state.count, 10);
    }

    /// Otherwise one unit that opens a window and comes back would let 20 units of 10 be admitted
    /// at the window's end.
    #[test]
    fn a_window_whose_units_are_all_refunded_is_unopened() {
        let ten = window(10, 1_000_000);
        let mut state = ten.initial_state();
        ten.charge(&mut state, 0, 2);
        let taken = ChargeRecord { at: 0, reset_at: 1_000_000, ..ChargeRecord::default() };
        assert_eq!(ten.refund(&mut state, 0, 3, taken), 2);
        assert_eq!(state, ten.initial_state());
        ten.charge(&mut state, 999_000, 10);
        assert_eq!(ten.charge(&mut state, 1_998_000, 1), Outcome::Refused);
    }

    #[test]
    fn errors_name_the_option() {
        assert_eq!(FixedWindow::new(0, 1).unwrap_err().option, "limit");
        assert_eq!(FixedWindow::new(1, 0).unwrap_err().option, "window");
    }
}
