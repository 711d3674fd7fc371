//! The calendar window: an hour, a day, a week or a month in a time zone, or another part of a day.
//!
//! **Law:** at most limit units per calendar window, and at most 2·limit in any rolling span that
//! is not longer than the windows that it overlaps: a span that touches three windows contains a
//! whole one, and so is longer than it. (A day has 23 hours where the clocks go forward. An hour
//! that a change of offset shortens counts with its real length.) [`Calendar`] determines the ends
//! of windows.
//!
//! The state is that of the fixed window: the window's end and its count. The calendar is asked for
//! the end only when a window opens, and an open window keeps its end. So processes with different
//! time zone data neither reset nor extend each other's windows.
//!
//! The allowance of a window is renewed at its end, also if no call has opened it. So the reset time
//! of a key is the end of the window that contains now.
//!
//! **Changed numbers.** A count is compared with the limit of the policy that decides. This law
//! holds across a change of limit, windows, time zone or time zone data, also with several versions
//! side by side: each window that was opened admits at most the larger limit, and ends at a
//! boundary of one of the versions before the next one opens.
//!
//! A window may end further ahead than twice the longest window (see [`Calendar::horizon`]: two
//! parts of a day; 50 hours; 14 days and 2 hours; 62 days and 2 hours). Then longer windows wrote
//! it, or the clock has stepped back: its end moves to the next boundary, and its count stays. The
//! factor is two because of clock steps: after a window is opened, the clock may step back by less
//! than a window. When the clock then reaches the window's beginning again, the window must not be
//! counted anew.
//!
//! Source: go-zero's PeriodLimit with `Align`, whose three states (allowed, hit the quota, over the
//! quota) are the statuses allowed, allowed-last and refused. Differences: changes of offset are
//! followed, a refused call counts nothing, a cost is added before it is compared, and no window
//! depends on the expiry of a key.

use std::sync::Arc;

use super::{
    Algorithm, ChargeRecord, InvalidNumber, KeyState as _, Outcome, Rewrites, WindowState,
    checked_units,
};
use crate::calendar::Calendar;
#[cfg(feature = "zones")]
use crate::calendar::Every;
use crate::time::{MICROS_PER_MILLI, Micros};

/// The error for the name of a time zone that does not exist.
#[cfg(feature = "zones")]
pub(crate) const UNKNOWN_TIME_ZONE: InvalidNumber =
    InvalidNumber { option: "timeZone", rule: "must name an IANA time zone" };

/// `limit` units in each window of a calendar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalendarWindow {
    limit: u64,
    calendar: Arc<Calendar>,
}

impl CalendarWindow {
    /// `limit` units per window in the time zone of an IANA name.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a limit that is 0 or too large to count exactly, and for an unknown
    /// time zone.
    #[cfg(feature = "zones")]
    pub fn new(limit: u64, every: Every, time_zone: &str) -> Result<Self, InvalidNumber> {
        Self::by(limit, Calendar::new(every, time_zone).ok_or(UNKNOWN_TIME_ZONE)?)
    }

    /// `limit` units per window of a calendar.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a limit that is 0 or too large to count exactly.
    pub fn by(limit: u64, calendar: Calendar) -> Result<Self, InvalidNumber> {
        checked_units("limit", limit)?;
        Ok(Self { limit, calendar: Arc::new(calendar) })
    }

    /// The same calendar with another limit.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a limit that is 0 or too large to count exactly.
    pub fn with_limit(&self, limit: u64) -> Result<Self, InvalidNumber> {
        checked_units("limit", limit)?;
        Ok(Self { limit, calendar: Arc::clone(&self.calendar) })
    }

    /// The calendar that determines the ends of windows.
    #[must_use]
    pub fn calendar(&self) -> &Calendar {
        &self.calendar
    }
}

impl Algorithm for CalendarWindow {
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
        let latest = now + self.calendar.horizon();
        state.charge(self.limit, now, cost, latest, || self.calendar.end_after(now))
    }

    fn outcome(&self, state: &WindowState, now: Micros, cost: u64) -> Outcome {
        state.outcome(self.limit, now, cost)
    }

    fn refund(&self, state: &mut WindowState, now: Micros, units: u64, taken: ChargeRecord) -> u64 {
        state.refund(now, units, taken)
    }

    #[inline]
    fn rewrites(&self, state: &WindowState, now: Micros) -> Rewrites {
        let is_ahead = state.reset_at() > now + self.calendar.horizon();
        if is_ahead { Rewrites::Always } else { Rewrites::Never }
    }

    #[inline]
    fn remaining(&self, state: &WindowState, now: Micros) -> u64 {
        self.limit.saturating_sub(state.used(now))
    }

    #[inline]
    fn reset_at(&self, state: &WindowState, now: Micros) -> Micros {
        let end = state.reset_at();
        if end > now { end } else { self.calendar.end_after(now) * MICROS_PER_MILLI }
    }

    #[inline]
    fn retry_at(&self, state: &WindowState, now: Micros, _cost: u64) -> Micros {
        state.reset_at().max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;
    const HOUR: Micros = 3_600 * SECOND;
    const DAY: Micros = 24 * HOUR;
    /// 2026-06-01T12:00:00Z
    const NOON: Micros = 1_780_315_200 * SECOND;

    fn daily(limit: u64) -> CalendarWindow {
        CalendarWindow::new(limit, Every::Day, "UTC").unwrap()
    }

    #[test]
    fn a_window_ends_at_the_boundary_whenever_it_was_opened() {
        let two = daily(2);
        let midnight = NOON + 12 * HOUR;
        let mut state = two.initial_state();
        assert_eq!(two.charge(&mut state, NOON, 1), Outcome::Admitted);
        assert_eq!(state, WindowState { ends_ms: midnight / 1_000, count: 1 });
        assert_eq!(two.charge(&mut state, midnight - 1, 1), Outcome::Admitted);
        assert_eq!(two.charge(&mut state, midnight - 1, 1), Outcome::Refused);
        assert_eq!(two.retry_at(&state, midnight - 1, 1), midnight);
        assert_eq!(two.charge(&mut state, midnight, 2), Outcome::Admitted);
        assert_eq!(state, WindowState { ends_ms: (midnight + DAY) / 1_000, count: 2 });
    }

    #[test]
    fn a_call_that_can_never_fit_opens_nothing() {
        let two = daily(2);
        let mut state = two.initial_state();
        assert_eq!(two.charge(&mut state, NOON, 3), Outcome::Impossible);
        assert_eq!(state, two.initial_state());
    }

    #[test]
    fn an_open_window_keeps_its_end_whatever_the_calendar_says() {
        let [utc, berlin] =
            ["UTC", "Europe/Berlin"].map(|zone| CalendarWindow::new(10, Every::Day, zone).unwrap());
        let mut state = utc.initial_state();
        utc.charge(&mut state, NOON, 9);
        let ends_ms = state.ends_ms;
        // 23:00 UTC is 01:00 of the next day in Berlin.
        assert_eq!(berlin.charge(&mut state, NOON + 11 * HOUR, 2), Outcome::Refused);
        assert_eq!(berlin.charge(&mut state, NOON + 11 * HOUR, 1), Outcome::Admitted);
        assert_eq!(state, WindowState { ends_ms, count: 10 });
        assert_eq!(berlin.charge(&mut state, NOON + 12 * HOUR, 1), Outcome::Admitted);
        assert_eq!(state, WindowState { ends_ms: (NOON + 34 * HOUR) / 1_000, count: 1 });
    }

    // promise: calendar-window-keeps-end
    #[test]
    fn a_window_that_ends_too_late_keeps_its_count_and_ends_at_the_next_boundary() {
        let ten = daily(10);
        let (now, ends_ms) = (NOON, (NOON + 50 * HOUR) / 1_000);
        let mut at_the_horizon = WindowState { ends_ms, count: 1 };
        assert_eq!(ten.charge(&mut at_the_horizon, now, 1), Outcome::Admitted);
        assert_eq!(at_the_horizon, WindowState { ends_ms, count: 2 });
        let mut beyond = WindowState { ends_ms: ends_ms + 1, count: 1 };
        assert_eq!(ten.charge(&mut beyond, now, 1), Outcome::Admitted);
        assert_eq!(beyond, WindowState { ends_ms: (NOON + 12 * HOUR) / 1_000, count: 2 });
        assert_eq!(ten.charge(&mut beyond, now, 9), Outcome::Refused);
        assert_eq!(ten.charge(&mut beyond, NOON + 12 * HOUR, 10), Outcome::Admitted);
    }

    #[test]
    fn a_smaller_limit_keeps_the_window_and_refuses_until_it_ends() {
        let ten = daily(10);
        let mut state = WindowState { ends_ms: NOON / 1_000 + 5, count: 50 };
        assert_eq!(ten.charge(&mut state, NOON, 1), Outcome::Refused);
        assert_eq!((state.count, ten.remaining(&state, NOON)), (50, 0));
        assert_eq!(ten.retry_at(&state, NOON, 1), NOON + 5_000);
    }

    #[test]
    fn units_come_back_until_the_boundary() {
        let ten = daily(10);
        let midnight = NOON + 12 * HOUR;
        let mut state = ten.initial_state();
        ten.charge(&mut state, NOON, 10);
        let taken = ChargeRecord { at: NOON, reset_at: midnight, ..ChargeRecord::default() };
        assert_eq!(ten.refund(&mut state, midnight - 1, 4, taken), 4);
        assert_eq!(state.count, 6);
        assert_eq!(ten.refund(&mut state, midnight, 4, taken), 0);
        ten.charge(&mut state, midnight, 1);
        assert_eq!(ten.refund(&mut state, midnight, 4, taken), 0);
    }

    #[test]
    fn errors_name_the_option() {
        let new = |limit, zone| CalendarWindow::new(limit, Every::Day, zone);
        assert_eq!(new(0, "UTC").unwrap_err().option, "limit");
        for zone in ["", "Mars/Base", "../zoneinfo/UTC", "Etc/Unknown", "Europe", "UTC\0"] {
            assert_eq!(new(1, zone).unwrap_err().option, "timeZone", "{zone}");
        }
    }
}
