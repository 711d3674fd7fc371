//! A cooldown: after each admitted call of a key, a pause.
//!
//! **Law:** at most limit units in one call, and no other call within the pause after it.

use super::{
    Algorithm, ChargeRecord, InvalidNumber, Outcome, Rewrites, WindowState, checked_length,
    checked_units,
};
use crate::time::{MICROS_PER_MILLI, Micros, whole_millis};

/// One call of up to `limit` units, then a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cooldown {
    limit: u64,
    pause: Micros,
}

impl Cooldown {
    /// One call of up to `limit` units each `pause`.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a number that is 0 or too large to count exactly.
    pub fn new(limit: u64, pause: Micros) -> Result<Self, InvalidNumber> {
        checked_units("limit", limit)?;
        checked_length("pause", pause)?;
        Ok(Self { limit, pause })
    }

    /// The length of a pause.
    #[must_use]
    pub fn pause(&self) -> Micros {
        self.pause
    }

    /// The end of a pause that begins at `now`, in milliseconds.
    fn end_from(&self, now: Micros) -> u64 {
        whole_millis(now + self.pause)
    }
}

impl Algorithm for Cooldown {
    type State = WindowState;

    fn initial_state(&self) -> WindowState {
        WindowState { ends_ms: 0, count: 0 }
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn charge(&self, state: &mut WindowState, now: Micros, cost: u64) -> Outcome {
        state.ends_ms = state.ends_ms.min(self.end_from(now));
        let outcome = match cost {
            0 => Outcome::Admitted,
            _ if cost > self.limit => Outcome::Impossible,
            _ if state.ends_ms * MICROS_PER_MILLI > now => Outcome::Refused,
            _ => Outcome::Admitted,
        };
        if cost > 0 && outcome == Outcome::Admitted {
            *state = WindowState { ends_ms: self.end_from(now), count: cost };
        }
        outcome
    }

    fn refund(&self, _: &mut WindowState, _: Micros, _: u64, _: ChargeRecord) -> u64 {
        0
    }

    fn rewrites(&self, state: &WindowState, now: Micros) -> Rewrites {
        if state.ends_ms > self.end_from(now) { Rewrites::Always } else { Rewrites::Never }
    }

    fn remaining(&self, state: &WindowState, now: Micros) -> u64 {
        if state.ends_ms * MICROS_PER_MILLI > now { 0 } else { self.limit }
    }

    fn retry_at(&self, state: &WindowState, now: Micros, _cost: u64) -> Micros {
        now.max(state.ends_ms * MICROS_PER_MILLI)
    }
}
