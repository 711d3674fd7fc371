//! The time of a call.

use super::micros;
use crate::clock::Clock;
use crate::time::Micros;

/// The time that a call brings: there is no other clock.
pub(crate) struct TimeOf(Micros);

impl TimeOf {
    pub(crate) fn call(epoch_ms: f64) -> Self {
        Self(micros(epoch_ms).unwrap_or(0))
    }
}

impl Clock for TimeOf {
    fn now(&self) -> Micros {
        self.0.now()
    }
}
