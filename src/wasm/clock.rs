//! The clock of a call.

use super::micros;
use crate::clock::Clock;
use crate::time::Micros;

/// The time that the caller gives: WebAssembly has no clock.
pub(crate) struct WasmCallClock(Micros);

impl WasmCallClock {
    pub(crate) fn call(epoch_ms: f64) -> Self {
        Self(micros(epoch_ms).unwrap_or(0))
    }
}

impl Clock for WasmCallClock {
    fn now(&self) -> Micros {
        self.0.now()
    }
}
