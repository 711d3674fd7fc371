//! One limiter's states on the embedded store.

use wasm_bindgen::prelude::wasm_bindgen;

use super::clock::TimeOf;
use super::response::{Answer, Failure, Place};
use super::whole;
use crate::key::Key;
use crate::memory;
use crate::policy::execute::Execution;
use crate::policy::operation::Operation;
use crate::wasm::operation_reader::asked;
use crate::wasm::scratch::at_desk;

/// The states of one limiter's keys. The keys of a call lie on the desk, and so does its answer.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Ledger {
    inner: memory::Ledger,
    is_named: bool,
}

impl Ledger {
    pub(crate) fn new(inner: memory::Ledger, is_named: bool) -> Self {
        Self { inner, is_named }
    }

    fn perform_on(
        &self,
        keys: &[Option<Key<'_>>],
        operation: &Operation,
        time: &TimeOf,
    ) -> Result<Execution, Failure> {
        Ok(self.inner.execute(keys, operation, time)?)
    }
}

#[wasm_bindgen]
impl Ledger {
    /// Whether answers of takes tell of a single limit without a name, in six doubles.
    #[wasm_bindgen(js_name = isSingle)]
    pub fn is_single(&self) -> bool {
        !self.is_named
    }

    /// Takes `cost` units from the first key, which is so many bytes long.
    pub fn take(&self, length: usize, cost: f64, epoch_ms: f64) {
        at_desk(|desk| {
            let (key, answer) = desk.key(length);
            let (cost, time) = (whole(cost), TimeOf::call(epoch_ms));
            if self.is_named {
                let take = |key| self.perform_on(&[Some(key)], &Operation::Take { cost }, &time);
                answer.write(key.and_then(take));
            } else if let Some(answer) = Answer::in_front_of(answer) {
                answer.write(key.map(|key| Some(self.inner.take(key, cost, &time))));
            }
        });
    }

    /// Performs an operation: by its number in `ts/backends/operation.ts`, or one that [`asked`] knows, of the question's numbers.
    pub fn perform(&self, code: u32, count: usize, epoch_ms: f64) {
        at_desk(|desk| {
            let operation = asked(desk, code, count);
            let (keys, answer) = desk.keys();
            let performed = keys.and_then(|keys| {
                let keys = &keys[..self.inner.policies().subjects()];
                let operation = operation.ok_or(Failure::Panicked)?;
                self.perform_on(keys, &operation, &TimeOf::call(epoch_ms))
            });
            answer.write(performed);
        });
    }

    /// Frees the prefix for another policy.
    pub fn close(&self) {
        self.inner.close();
    }
}
