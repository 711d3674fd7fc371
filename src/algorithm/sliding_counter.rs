//! The sliding counter: two counters. The units of the older one lose weight as its window slides
//! out.
//!
//! Windows follow the epoch's grid, in whole milliseconds: window i is [i·W, (i + 1)·W). At any
//! time, the units admitted in the current window count in full. Of the units of the previous
//! window the same fraction counts as that window still overlaps the last W:
//!
//! ```text
//! used(now) = current + ⌈previous · overlap / W⌉, overlap = the window's end − now, in ms, up
//! ```
//!
//! A call is admitted if `used` plus its cost is at most the limit. This is an estimate, as if the
//! units of the previous window had been spread evenly over it. Rounding is always against the
//! caller.
//!
//! **Law:** in any span of length t fewer than limit·(1 + t/W) units are admitted, and so at most
//! 2·limit − 1 in any rolling window. That bound is reached by limit units in the last millisecond
//! of a window, and limit − 1 in the last millisecond of the next. In each window of the grid at
//! most limit are admitted.
//!
//! *Proof.* Let V be `used` without its rounding. An admission adds its cost to V and leaves V at
//! most limit. In between, V falls by previous/W ≤ limit/W in each unit of time. It does not jump
//! at a window's end, where `current` starts to fall from its whole weight. The units that a span
//! [s, s + t) admits equal the rise of V from the span's first call to its last, which is at most
//! limit, plus the fall between them, which is less than t·limit/W.
//!
//! **Promise:** a call is admitted if its cost plus all units admitted in this window of the grid
//! and the previous one are at most limit (no weight is above 1). So a fresh key has limit units at
//! once, and a caller of at most limit units in any span of 2·W is never refused. A caller of m
//! evenly spaced units per window is never refused either if m + ⌈m/(W in ms)⌉ < limit: before its
//! call j of a window, at most j + ⌈m·(W − j·W/m + 1 ms)/W⌉ units count. The last unit of a full
//! window comes back at the end of the next window.
//!
//! **Refunds.** Units come back within the window of the grid that they were taken in, at most as
//! many as it counts: V falls by the same number. So the law holds of the admitted units less the
//! refunded ones.
//!
//! **Changed numbers.** A state carries the length of the window that it was counted in. Its units,
//! counted with that length and rounded up, are compared with the limit of the policy that decides.
//! A call admitted under another length moves them into the current window of the new length.
//! Across a change, also with several versions side by side, fewer than L·(1 + t/W) units are
//! admitted in any span of length t, where L is the largest limit and W the shortest window. The
//! proof above holds, because a change of length leaves `used` as it is, and so does not reduce V.
//!
//! **Clock steps.** A state of the window after the present one was written before the clock
//! stepped back. It is evaluated as at the start of its window, so nothing loses weight. A state
//! that ends more than two windows ahead of now is replaced: limit units in the present window. In
//! both cases a key is fresh within three windows.
//!
//! Source: the approximated sliding window that Cloudflare described ("How we built rate limiting
//! capable of scaling to millions of domains", 2017) and many have adopted. Differences: nothing is
//! a float, the cost is added before it is compared, and a refused call counts nothing.

use super::{
    Algorithm, ChargeRecord, InvalidNumber, KeyState, Outcome, Rewrites, checked_length,
    checked_units,
};
use crate::time::{MAX_SAFE, MICROS_PER_MILLI, Micros};

/// The state of a key: the units admitted in a window and in the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterState {
    /// The end of the window, in milliseconds since the Unix epoch.
    pub ends_ms: u64,
    /// Units admitted in the window.
    pub current: u64,
    /// Units admitted in the previous window.
    pub previous: u64,
    /// The length of both windows in milliseconds: at least 1, and so short that its product with
    /// either count is below 2^53.
    pub window_ms: u64,
}

impl CounterState {
    /// The end of the window of the grid that contains a time.
    fn end_of_window(window_ms: u64, now_ms: u64) -> u64 {
        (now_ms / window_ms + 1) * window_ms
    }

    /// The state at a time, moved on past windows that have ended.
    #[inline]
    fn at(self, now_ms: u64) -> Self {
        if now_ms < self.ends_ms {
            return self;
        }
        let ends_ms = Self::end_of_window(self.window_ms, now_ms);
        let is_next = ends_ms - self.ends_ms == self.window_ms;
        let previous = if is_next { self.current } else { 0 };
        Self { ends_ms, current: 0, previous, ..self }
    }

    /// The units that count at a time, in microseconds.
    #[must_use]
    pub fn used_at(self, now: Micros) -> u64 {
        let now_ms = now / MICROS_PER_MILLI;
        self.at(now_ms).used(now_ms)
    }

    /// The units that count, for a state that has been moved on.
    #[inline]
    fn used(self, now_ms: u64) -> u64 {
        // The overlap exceeds the window only after a clock step back; then it is that of the
        // window's start.
        let overlap = (self.ends_ms - now_ms).min(self.window_ms);
        self.current + (self.previous * overlap).div_ceil(self.window_ms)
    }
}

impl KeyState for CounterState {
    fn reset_at(&self) -> Micros {
        let reset_ms = match (self.current, self.previous) {
            (0, 0) => 0,
            (0, _) => self.ends_ms,
            _ => self.ends_ms + self.window_ms,
        };
        reset_ms.saturating_mul(MICROS_PER_MILLI)
    }

    fn drains(&self) -> bool {
        true
    }
}

/// About `limit` units in any rolling window, by two counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingCounter {
    limit: u64,
    window_ms: u64,
}

impl SlidingCounter {
    /// `limit` units per `window`, which is in whole milliseconds.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a number that is 0 or too large, for a window that is not in whole
    /// milliseconds, and if limit times window in milliseconds is 2^53 or more.
    pub fn new(limit: u64, window: Micros) -> Result<Self, InvalidNumber> {
        checked_units("limit", limit)?;
        checked_length("window", window)?;
        if !window.is_multiple_of(MICROS_PER_MILLI) {
            let rule = "must be in whole milliseconds";
            return Err(InvalidNumber { option: "window", rule });
        }
        let window_ms = window / MICROS_PER_MILLI;
        if limit > MAX_SAFE / window_ms {
            let rule = "is too large to count exactly in this window: limit x window in \
                        milliseconds must be below 2^53";
            return Err(InvalidNumber { option: "limit", rule });
        }
        Ok(Self { limit, window_ms })
    }

    /// The length of a window, in milliseconds.
    #[must_use]
    pub fn window_ms(&self) -> u64 {
        self.window_ms
    }

    /// Replaces a state that a clock step left further ahead than two of its windows: fully used in
    /// the present window, as far as its window can count.
    #[inline]
    fn repair(&self, state: &mut CounterState, now_ms: u64) {
        let CounterState { ends_ms, current, window_ms, .. } = *state;
        if ends_ms > now_ms + 2 * window_ms {
            let full = self.limit.min(MAX_SAFE / window_ms);
            *state = CounterState {
                ends_ms: CounterState::end_of_window(window_ms, now_ms),
                current: current.max(full),
                previous: 0,
                window_ms,
            };
        }
    }
}

impl Algorithm for SlidingCounter {
    type State = CounterState;

    #[inline]
    fn initial_state(&self) -> CounterState {
        CounterState { ends_ms: 0, current: 0, previous: 0, window_ms: self.window_ms }
    }

    #[inline]
    fn capacity(&self) -> u64 {
        self.limit
    }

    #[inline]
    fn charge(&self, state: &mut CounterState, now: Micros, cost: u64) -> Outcome {
        let now_ms = now / MICROS_PER_MILLI;
        self.repair(state, now_ms);
        if cost == 0 {
            return Outcome::Admitted;
        }
        if cost > self.limit {
            return Outcome::Impossible;
        }
        let current = state.at(now_ms);
        let used = current.used(now_ms);
        if used.saturating_add(cost) > self.limit {
            return Outcome::Refused;
        }
        *state = if current.window_ms == self.window_ms {
            CounterState { current: current.current + cost, ..current }
        } else {
            CounterState {
                ends_ms: CounterState::end_of_window(self.window_ms, now_ms),
                current: used + cost,
                previous: 0,
                window_ms: self.window_ms,
            }
        };
        Outcome::Admitted
    }

    /// Only while the window of the grid that the units were taken in is open: the units of the
    /// previous window have begun to lose weight.
    fn refund(
        &self,
        state: &mut CounterState,
        now: Micros,
        units: u64,
        taken: ChargeRecord,
    ) -> u64 {
        let end = |at: Micros| CounterState::end_of_window(self.window_ms, at / MICROS_PER_MILLI);
        let counts_in = (state.window_ms, state.ends_ms);
        if counts_in != (self.window_ms, end(now)) || end(now) != end(taken.at) {
            return 0;
        }
        let given = units.min(state.current);
        state.current -= given;
        given
    }

    #[inline]
    fn rewrites(&self, state: &CounterState, now: Micros) -> Rewrites {
        let CounterState { ends_ms, window_ms, .. } = *state;
        if ends_ms > now / MICROS_PER_MILLI + 2 * window_ms {
            Rewrites::Always
        } else if window_ms != self.window_ms {
            Rewrites::IfAdmitted
        } else {
            Rewrites::Never
        }
    }

    #[inline]
    fn remaining(&self, state: &CounterState, now: Micros) -> u64 {
        let now_ms = now / MICROS_PER_MILLI;
        self.limit.saturating_sub(state.at(now_ms).used(now_ms))
    }

    #[inline]
    fn retry_at(&self, state: &CounterState, now: Micros, cost: u64) -> Micros {
        let CounterState { ends_ms, current, previous, window_ms } =
            state.at(now / MICROS_PER_MILLI);
        // The longest overlap with which `units` units weigh at most `free`.
        let overlap = |units: u64, free: u64| {
            if units <= free {
                return window_ms;
            }
            let longest = u128::from(free) * u128::from(window_ms) / u128::from(units);
            u64::try_from(longest).unwrap_or(window_ms)
        };
        let free = self.limit.saturating_sub(cost);
        let at_ms = match free.checked_sub(current) {
            // Only a hostile server replies with a window that began before 1970.
            Some(free) => ends_ms.saturating_sub(overlap(previous, free)),
            // Only after this window has become the previous one.
            None => ends_ms + window_ms - overlap(current, free),
        };
        at_ms.saturating_mul(MICROS_PER_MILLI).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(limit: u64, window_ms: u64) -> SlidingCounter {
        SlidingCounter::new(limit, window_ms * MICROS_PER_MILLI).unwrap()
    }

    fn state(ends_ms: u64, current: u64, previous: u64, window_ms: u64) -> CounterState {
        CounterState { ends_ms, current, previous, window_ms }
    }

    #[test]
    fn windows_are_those_of_the_epochs_grid() {
        let two = counter(2, 1_000);
        let mut kept = two.initial_state();
        assert_eq!(two.charge(&mut kept, 1_999_999, 2), Outcome::Admitted);
        assert_eq!(kept, state(2_000, 2, 0, 1_000));
        assert_eq!(two.charge(&mut kept, 1_999_999, 1), Outcome::Refused);
        assert_eq!(two.retry_at(&kept, 1_999_999, 1), 2_500_000);
        assert_eq!(two.charge(&mut kept, 2_499_999, 1), Outcome::Refused);
        assert_eq!(kept, state(2_000, 2, 0, 1_000), "a refused call rolls nothing on");
        assert_eq!(two.charge(&mut kept, 2_500_000, 1), Outcome::Admitted);
        assert_eq!(kept, state(3_000, 1, 2, 1_000));
    }

    #[test]
    fn the_older_window_fades_and_is_rounded_up() {
        let ten = counter(10, 1_000);
        let kept = state(2_000, 0, 10, 1_000);
        for (now, used) in [
            (1_000_000, 10),
            (1_000_999, 10),
            (1_100_000, 9),
            (1_100_001, 9),
            (1_101_000, 9),
            (1_199_999, 9),
            (1_200_000, 8),
            (1_999_999, 1),
            (2_000_000, 0),
        ] {
            assert_eq!(ten.remaining(&kept, now), 10 - used, "{now}");
        }
    }

    #[test]
    fn a_window_that_began_before_1970_has_a_retry_time() {
        assert_eq!(counter(2, 1_000).retry_at(&state(500, 0, 1, 1_000), 7, 1), 7);
    }

    #[test]
    fn after_two_windows_a_key_is_fresh() {
        let ten = counter(10, 1_000);
        let mut kept = ten.initial_state();
        ten.charge(&mut kept, 1_500_000, 10);
        assert_eq!(kept.reset_at(), 3_000_000);
        assert_eq!(ten.remaining(&kept, 2_999_999), 9);
        assert_eq!(ten.remaining(&kept, 3_000_000), 10);
    }

    #[test]
    fn a_cost_waits_for_the_window_after_when_its_own_has_no_room() {
        let ten = counter(10, 1_000);
        let mut kept = state(2_000, 8, 2, 1_000);
        assert_eq!(ten.charge(&mut kept, 1_000_000, 1), Outcome::Refused);
        assert_eq!(ten.retry_at(&kept, 1_000_000, 1), 1_500_000);
        assert_eq!(ten.retry_at(&kept, 1_000_000, 2), 2_000_000);
        assert_eq!(ten.retry_at(&kept, 1_000_000, 3), 2_125_000);
        assert_eq!(ten.retry_at(&kept, 1_000_000, 10), 3_000_000);
    }

    #[test]
    fn a_step_back_into_the_window_before_refills_nothing() {
        let ten = counter(10, 1_000);
        let mut kept = state(2_000, 4, 5, 1_000);
        assert_eq!(ten.remaining(&kept, 999_000), 1);
        assert_eq!(ten.charge(&mut kept, 1_000, 1), Outcome::Admitted);
        assert_eq!(kept, state(2_000, 5, 5, 1_000));
        assert_eq!(ten.charge(&mut kept, 0, 1), Outcome::Refused);
        assert_eq!(ten.retry_at(&kept, 0, 1), 1_200_000);
    }

    #[test]
    fn a_longer_step_back_locks_a_key_for_no_longer_than_two_windows() {
        let ten = counter(10, 1_000);
        let mut kept = state(3_000, 1, 0, 1_000);
        assert_eq!(ten.charge(&mut kept, 999_999, 1), Outcome::Refused);
        assert_eq!(kept, state(1_000, 10, 0, 1_000));
        assert_eq!(ten.charge(&mut kept, 2_000_000, 10), Outcome::Admitted);
    }

    #[test]
    fn another_length_takes_the_used_units_along_when_a_call_is_admitted() {
        let (seconds, minutes) = (counter(10, 1_000), counter(20, 60_000));
        let mut kept = state(2_000, 3, 5, 1_000);
        // Half a second later, 3 and 2.5 of 5 units count.
        assert_eq!(minutes.remaining(&kept, 1_500_000), 14);
        assert_eq!(minutes.charge(&mut kept, 1_500_000, 15), Outcome::Refused);
        assert_eq!(kept, state(2_000, 3, 5, 1_000));
        assert_eq!(minutes.charge(&mut kept, 1_500_000, 14), Outcome::Admitted);
        assert_eq!(kept, state(60_000, 20, 0, 60_000));
        assert_eq!(seconds.charge(&mut kept, 1_500_000, 1), Outcome::Refused);
        // After 55 % of the next minute, 9 of 20 units count.
        assert_eq!(seconds.retry_at(&kept, 1_500_000, 1), 93_000_000);
    }

    #[test]
    fn what_a_window_cannot_count_is_not_asked_of_it() {
        let (large, long) = (counter(MAX_SAFE, 1), counter(10, MAX_SAFE / 10_000));
        let ends_ms = 5 * long.window_ms();
        let mut kept = state(ends_ms, 7, 0, long.window_ms());
        assert_eq!(large.charge(&mut kept, 0, MAX_SAFE), Outcome::Refused);
        assert_eq!(kept.current, 10_000);
        assert_eq!(large.charge(&mut kept, 0, MAX_SAFE - 10_000), Outcome::Admitted);
        assert_eq!(kept, state(1, MAX_SAFE, 0, 1));
        assert_eq!(long.charge(&mut kept, 1_000, 1), Outcome::Refused);
        assert_eq!(long.retry_at(&kept, 1_000, 1), 2_000);
    }

    #[test]
    fn errors_name_the_option_and_the_rule() {
        assert_eq!(SlidingCounter::new(0, 1_000).unwrap_err().option, "limit");
        assert_eq!(SlidingCounter::new(1, 0).unwrap_err().option, "window");
        let part = SlidingCounter::new(1, 1_500).unwrap_err();
        assert_eq!(part.to_string(), "window must be in whole milliseconds");
        assert!(SlidingCounter::new(MAX_SAFE, 1_000).is_ok());
        let large = SlidingCounter::new(MAX_SAFE, 2_000).unwrap_err();
        assert_eq!(large.option, "limit");
        assert!(large.rule.contains("below 2^53"));
    }

    #[test]
    fn units_come_back_within_the_window_that_they_were_taken_in() {
        let ten = counter(10, 1_000);
        let taken = |at| ChargeRecord { at, reset_at: 0, ..ChargeRecord::default() };
        let mut kept = state(2_000, 6, 4, 1_000);
        assert_eq!(ten.refund(&mut kept, 1_500_000, 3, taken(1_000_000)), 3);
        assert_eq!(kept, state(2_000, 3, 4, 1_000));
        for (now, at) in [(1_500_000, 999_999), (2_000_000, 1_999_999), (2_000_000, 2_000_000)] {
            assert_eq!(ten.refund(&mut kept, now, 1, taken(at)), 0, "{at} at {now}");
        }
        assert_eq!(counter(10, 500).refund(&mut kept, 1_500_000, 1, taken(1_500_000)), 0);
        assert_eq!(ten.refund(&mut kept, 1_999_999, 9, taken(1_000_000)), 3);
        assert_eq!(kept, state(2_000, 0, 4, 1_000), "what fades does not come back");
    }
}
