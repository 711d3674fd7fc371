//! The functions that JavaScript calls (feature `fuzzing`), for `tests/fuzz/` beside `src/`.

use crate::abi::response::{DecisionBuffer, ResponseBuffer};
use crate::key::MAX_KEY_BYTES;
use crate::policy::decision::Decision;
use crate::policy::execute::Execution;
use crate::wasm::scratch::{ARGUMENTS, RESPONSE, with_scratch};

pub use crate::policy::policy_set::MAX_POLICIES;
pub use crate::wasm::builder::{
    add_override, add_policy, check as check_policy_set, set_ban, start,
};
pub use crate::wasm::limiter::WasmMemoryLimiter;
pub use crate::wasm::policy::check as check_policy;
pub use crate::wasm::redis_flush::WasmFlush;
pub use crate::wasm::redis_store::{WasmRedisLimiter, WasmRedisStore};
pub use crate::wasm::store::WasmMemoryStore;

/// Writes a text into a buffer of the scratch memory, as far as it fits. `length` is what JavaScript
/// says about it.
pub fn write_text(index: usize, bytes: &[u8], length: i32) {
    let bytes = &bytes[..bytes.len().min(MAX_KEY_BYTES)];
    with_scratch(|scratch| scratch.write_raw(index, bytes, length));
}

/// Writes arguments, as far as they fit, and returns their number.
#[must_use]
pub fn write_arguments(arguments: &[f64]) -> usize {
    let count = arguments.len().min(ARGUMENTS);
    with_scratch(|scratch| scratch.arguments_mut()[..count].copy_from_slice(&arguments[..count]));
    count
}

/// The response.
#[must_use]
pub fn response() -> Vec<f64> {
    with_scratch(|scratch| scratch.keys().1.to_vec())
}

/// The bits of the doubles that encode the result of an operation.
#[must_use]
pub fn encode(executed: &Execution) -> Vec<u64> {
    let mut response = vec![f64::NAN; RESPONSE];
    response[..].write(Ok(executed.clone()));
    response.into_iter().take_while(|number| !number.is_nan()).map(f64::to_bits).collect()
}

/// The bits of the doubles that encode the decision on a take under a single limit.
#[must_use]
pub fn encode_decision(decision: &Decision) -> Vec<u64> {
    let mut response = DecisionBuffer::default();
    response.write(Ok(Some(decision.clone())));
    response.into_iter().map(f64::to_bits).collect()
}
