//! A limiter on the embedded store, for JavaScript.

use wasm_bindgen::prelude::wasm_bindgen;

use super::response::{DecisionBuffer, FailureCode, ResponseBuffer};
use super::{builder, micros, whole};
use crate::key::Key;
use crate::memory;
use crate::policy::execute::Execution;
use crate::policy::operation::Operation;
use crate::prefixes::VariantIndex;
use crate::time::Micros;
use crate::wasm::scratch::{with_scratch, write_reason};

/// A limiter on the embedded store. The keys and the response of a call are in the scratch memory.
#[wasm_bindgen]
#[derive(Debug)]
pub struct WasmMemoryLimiter {
    inner: memory::MemoryLimiter,
    is_named: bool,
}

impl WasmMemoryLimiter {
    pub(crate) fn new(inner: memory::MemoryLimiter, is_named: bool) -> Self {
        Self { inner, is_named }
    }

    fn execute_on(
        &self,
        keys: &[Option<Key<'_>>],
        operation: &Operation,
        now: Micros,
    ) -> Result<Execution, FailureCode> {
        Ok(self.inner.execute(keys, operation, &now)?)
    }
}

/// The time that the caller gives: WebAssembly has no clock.
fn time_of(epoch_ms: f64) -> Micros {
    micros(epoch_ms).unwrap_or(0)
}

#[wasm_bindgen]
impl WasmMemoryLimiter {
    /// Whether a take has a single limit without a name, and so a response of ten doubles.
    #[wasm_bindgen(js_name = isSingle)]
    pub fn is_single(&self) -> bool {
        !self.is_named
    }

    /// The prefix, if another limiter had it open with other numbers when this one was opened.
    #[wasm_bindgen(js_name = prefixWithOtherNumbers)]
    pub fn prefix_with_other_numbers(&self) -> Option<String> {
        self.inner.prefix_with_other_numbers().map(str::to_owned)
    }

    /// Takes `cost` units from the first key, which is `length` bytes long.
    pub fn take(&self, length: usize, cost: f64, epoch_ms: f64) {
        with_scratch(|scratch| {
            let (key, response) = scratch.key(length);
            let (cost, now) = (whole(cost), time_of(epoch_ms));
            if self.is_named {
                let take = |key| {
                    self.execute_on(&[Some(key)], &Operation::Take { cost: cost.into() }, now)
                };
                response.write(key.and_then(take));
            } else if let Some(response) = DecisionBuffer::at_start_of(response) {
                response.write(key.map(|key| Some(self.inner.take(key, cost, &now))));
            }
        });
    }

    /// Executes an operation, by the numbers of `numbersOf` in `ts/backends/operation.ts`: `count` of them
    /// are in the scratch memory.
    pub fn execute(&self, code: u8, count: usize, epoch_ms: f64) {
        with_scratch(|scratch| {
            let operation = builder::read_operation(scratch, code, count);
            let (keys, response) = scratch.keys();
            let performed = keys.and_then(|keys| {
                let keys = &keys[..self.inner.policies().key_dimensions()];
                let operation = operation.ok_or(FailureCode::Panicked)?;
                self.execute_on(keys, &operation, time_of(epoch_ms))
            });
            response.write(performed);
        });
    }

    /// Opens a limiter on the same states, with the policies in the builder, as the variant of this
    /// index: see `NativeMemoryLimiter::open_variant`. If it fails, it writes the reason to the
    /// scratch memory and returns nothing.
    #[wasm_bindgen(js_name = openVariant)]
    pub fn open_variant(&self, is_single: bool, index: usize, replaces: bool) -> Option<Self> {
        let index = VariantIndex { index, replaces };
        let opened =
            builder::take(is_single).and_then(|policies| self.inner.open_variant(index, policies));
        let opened = opened.map(|variant| Self::new(variant, self.is_named));
        opened.map_err(|invalid| write_reason(invalid.rule())).ok()
    }

    /// Frees the prefix for another policy.
    pub fn close(&self) {
        self.inner.close();
    }
}
