//! Functions that JavaScript supplies because WebAssembly lacks them: random numbers and the clocks
//! of time zones.

#[cfg(not(feature = "fuzzing"))]
use wasm_bindgen::prelude::wasm_bindgen;

use crate::calendar::Zone;
use crate::memory::Seed;

#[cfg(not(feature = "fuzzing"))]
#[wasm_bindgen(raw_module = "./host.js")]
extern "C" {
    /// 32 random bits, not predictable.
    #[wasm_bindgen(js_name = randomBits)]
    fn random_bits() -> u32;

    /// How many seconds the clocks of the time zone of this number are ahead of UTC at a time.
    #[wasm_bindgen(js_name = offsetAt)]
    fn offset_at(zone: u32, epoch_seconds: f64) -> f64;
}

#[cfg(feature = "fuzzing")]
fn random_bits() -> u32 {
    7
}

#[cfg(feature = "fuzzing")]
fn offset_at(zone: u32, _epoch_seconds: f64) -> f64 {
    f64::from(zone % 100) * 900.0
}

/// A random seed for a hash function.
pub(crate) fn seed() -> Seed {
    let half = || u64::from(random_bits()) << 32 | u64::from(random_bits());
    (half(), half())
}

/// A time zone, by the number that JavaScript gave it.
#[derive(Debug)]
pub(crate) struct NumberedZone(pub(super) u32);

impl Zone for NumberedZone {
    #[expect(clippy::cast_precision_loss, reason = "the engine's times are below 2^53")]
    #[expect(clippy::cast_possible_truncation, reason = "no clock is far ahead")]
    fn offset(&self, at: i64) -> i64 {
        offset_at(self.0, at as f64) as i64
    }
}
