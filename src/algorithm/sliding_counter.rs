//! The sliding counter: two counters, of which the older fades as its window slides out.
//!
//! Windows are those of the epoch's grid, in whole milliseconds: window i is [i·W, (i + 1)·W).
//! What counts at a time is what was admitted in the window that holds it, and of the window
//! before as large a part as still lies within W:
//!
//! ```text
//! used(now) = current + ⌈previous · overlap / W⌉, overlap = the window's end − now, in ms, up
//! ```
//!
//! A call is admitted if `used` and its cost are at most the limit. It is an estimate, as if the
//! units of the window before had been spread evenly over it; what is rounded is rounded against
//! the caller.
//!
//! **Law:** in any span of length t fewer than limit·(1 + t/W) units are admitted; so at most
//! 2·limit − 1 in any rolling window, which can be: limit units in the last millisecond of a
//! window, and all but one in the last of the next. In each window of the grid at most limit.
//! *Proof.* Let V be `used` without its rounding. An admission adds its cost to V and leaves it at
//! most limit. In between V fades by previous/W ≤ limit/W each unit of time, and it does not jump
//! at a window's end, where `current` begins to fade from its whole weight. What a span
//! [s, s + t) admits is what V has risen from its first call to its last, at most limit, and what
//! has faded between them, less than t·limit/W.
//!
//! **Promise:** a call is admitted if its cost, and all that was admitted in this window of the
//! grid and the one before, are at most limit (no weight is above 1). So an unused key has limit
//! units at once, a caller of at most limit units in any span of 2·W is never refused, and neither
//! is one of m evenly spaced units per window, if m + ⌈m/(W in ms)⌉ < limit: before its call j of
//! a window, at most j + ⌈m·(W − j·W/m + 1 ms)/W⌉ units count. The last unit of a full window
//! comes back at the end of the next.
//!
//! **Refunds.** Units come back within the window of the grid that they were taken in, and at most what
//! it counts: V falls by as many. So of what is admitted less what came back the law holds as it is.
//!
//! **Changed numbers.** A state carries the length of the window it was counted in. Its units, as
//! counted by that length and rounded up, are judged by the limit of whoever asks; a call admitted
//! under another length takes them along, into a window of the new length that is open now. Across
//! a change, several versions side by side included, fewer than L·(1 + t/W) units are admitted in
//! any span of length t, L being the largest limit and W the shortest window: the proof above
//! holds, as a change of length leaves `used` as it is, and so makes V no smaller.
//!
//! **Clock steps.** A state of the window after the present one was left by a clock that has
//! stepped back: it is judged as at the start of its window, so nothing fades. One that ends more
//! than two windows ahead of now is re-based: limit units in the present window. Either way a key
//! is as if never used within three windows.
//!
//! Source: the approximated sliding window that Cloudflare described ("How we built rate limiting
//! capable of scaling to millions of domains", 2017) and many have taken up. Unlike there, nothing
//! is a float, the cost is added before it is compared, and a refused call counts nothing.

use super::{
    Algorithm, ChargeRecord, InvalidNumber, Outcome, State, checked_length, checked_units,
};
use crate::time::{MAX_SAFE, MICROS_PER_MILLI, Micros};

/// What is remembered of a key: what was admitted in a window and in the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterState {
    /// The end of the window, in milliseconds since the Unix epoch.
    pub ends_ms: u64,
    /// Units admitted in the window.
    pub current: u64,
    /// Units admitted in the window before.
    pub previous: u64,
    /// The length of both windows, in milliseconds: 1 or more, and so few that its product with
    /// either count is below 2^53.
    pub window_ms: u64,
}

impl CounterState {
    /// The end of the window of the grid that holds a time.
    fn end_of_window(window_ms: u64, now_ms: u64) -> u64 {
        (now_ms / window_ms + 1) * window_ms
    }

    /// The state as it stands at a time: windows that have ended are behind it.
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

    /// Units that count at a time, in microseconds.
    #[must_use]
    pub fn used_at(self, now: Micros) -> u64 {
        let now_ms = now / MICROS_PER_MILLI;
        self.at(now_ms).used(now_ms)
    }

    /// Units that count, of a state as it stands.
    #[inline]
    fn used(self, now_ms: u64) -> u64 {
        // More than the window only after a step back: then as at the window's start.
        let overlap = (self.ends_ms - now_ms).min(self.window_ms);
        self.current + (self.previous * overlap).div_ceil(self.window_ms)
    }
}

impl State for CounterState {
    fn reset_at(&self) -> Micros {
        let settled_ms = match (self.current, self.previous) {
            (0, 0) => 0,
            (0, _) => self.ends_ms,
            _ => self.ends_ms + self.window_ms,
        };
        settled_ms.saturating_mul(MICROS_PER_MILLI)
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
    /// [`InvalidNumber`] for a number that is 0 or too large, a window with a part of a
    /// millisecond, or unless limit times window in milliseconds is below 2^53.
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

    /// Re-bases a state that a clock step left further ahead than two of its windows: as fully
    /// used in the present one, as far as its window can count.
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
    fn limit(&self) -> u64 {
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
        let standing = state.at(now_ms);
        let used = standing.used(now_ms);
        if used.saturating_add(cost) > self.limit {
            return Outcome::Refused;
        }
        *state = if standing.window_ms == self.window_ms {
            CounterState { current: standing.current + cost, ..standing }
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

    /// Only while the window of the grid is open that the units were taken in: those of the window
    /// before have begun to fade.
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
    fn remaining(&self, state: &CounterState, now: Micros) -> u64 {
        let now_ms = now / MICROS_PER_MILLI;
        self.limit.saturating_sub(state.at(now_ms).used(now_ms))
    }

    #[inline]
    fn retry_at(&self, state: &CounterState, now: Micros, cost: u64) -> Micros {
        let CounterState { ends_ms, current, previous, window_ms } =
            state.at(now / MICROS_PER_MILLI);
        // The longest overlap with which so many units weigh no more than there is room for.
        let overlap = |units: u64, room: u64| {
            if units <= room {
                return window_ms;
            }
            let longest = u128::from(room) * u128::from(window_ms) / u128::from(units);
            u64::try_from(longest).unwrap_or(window_ms)
        };
        let room = self.limit.saturating_sub(cost);
        let at_ms = match room.checked_sub(current) {
            Some(room) => ends_ms - overlap(previous, room),
            // Only when this window has become the one before.
            None => ends_ms + window_ms - overlap(current, room),
        };
        at_ms.saturating_mul(MICROS_PER_MILLI).max(now)
    }
}

#[cfg(test)]
mod tests;
