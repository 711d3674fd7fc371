//! One limiter's states on the embedded store.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::sync::Arc;

use napi::bindgen_prelude::{
    Array, Env, Float64Array, Float64ArraySlice, JsValue, Result, Unknown,
};
use napi_derive::napi;

use super::answer::{self, Failure};
use super::hot::{self, Peek, PeekSeveral, Question, Take, TakeSeveral, TimeOf};
use super::key::{KeyBuffer, element};
use crate::key::Key;
use crate::store::memory;

/// The states of one limiter's keys. `epochMs` below 0 means the system's clock, everywhere.
#[napi]
#[derive(Debug)]
pub struct Ledger(Arc<memory::Ledger>);

impl Ledger {
    pub(super) fn new(ledger: memory::Ledger) -> Self {
        Self(Arc::new(ledger))
    }

    /// Whether decisions tell of several limits.
    fn is_several(&self) -> bool {
        self.0.named_limits() > 0
    }

    fn take_each<Q: Question<Asked = memory::Ledger>>(
        &self,
        env: Env,
        keys: &Array<'_>,
        costs: &[f64],
        time: &TimeOf,
        answers: &mut [Q::Place],
    ) {
        for ((index, &cost), answer) in (0..keys.len()).zip(costs).zip(answers) {
            let mut buffer = KeyBuffer::new();
            // SAFETY: the environment and the array are the running callback's.
            let key =
                unsafe { buffer.read(env.raw(), element(env.raw(), keys.value().value, index)) };
            hot::ask::<Q>(answer, &self.0, key, cost, time);
        }
    }
}

#[napi]
impl Ledger {
    /// The function that takes `cost` units from `key`, and answers into `answer`.
    #[napi(catch_unwind, ts_return_type = "(key: string, cost?: number, epochMs?: number) => void")]
    pub fn bind_take(&self, env: Env, answer: Float64Array) -> Result<Unknown<'static>> {
        let ledger = Arc::clone(&self.0);
        if self.is_several() {
            return hot::function::<TakeSeveral>(env, ledger, answer);
        }
        hot::function::<Take>(env, ledger, answer)
    }

    /// The function that answers what taking `cost` units from `key` would, and takes nothing.
    #[napi(catch_unwind, ts_return_type = "(key: string, cost?: number, epochMs?: number) => void")]
    pub fn bind_peek(&self, env: Env, answer: Float64Array) -> Result<Unknown<'static>> {
        let ledger = Arc::clone(&self.0);
        if self.is_several() {
            return hot::function::<PeekSeveral>(env, ledger, answer);
        }
        hot::function::<Peek>(env, ledger, answer)
    }

    /// Takes `costs[i]` units from `keys[i]`, each by itself and in order, and answers into the
    /// i-th part of `answers`.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly string[], costs: Float64Array, epochMs: number, answers: Float64Array"
    )]
    pub fn take_many(
        &self,
        env: Env,
        keys: Array<'_>,
        costs: Float64ArraySlice<'_>,
        epoch_ms: f64,
        mut answers: Float64ArraySlice<'_>,
    ) {
        let time = TimeOf::call(epoch_ms);
        // SAFETY: TypeScript made the array for this call, and nothing else uses it meanwhile.
        let answers = unsafe { answers.as_mut() };
        if self.is_several() {
            let answers = answers.as_chunks_mut::<{ answer::SEVERAL_LENGTH }>().0;
            self.take_each::<TakeSeveral>(env, &keys, &costs, &time, answers);
        } else {
            let answers = answers.as_chunks_mut::<{ answer::LENGTH }>().0;
            self.take_each::<Take>(env, &keys, &costs, &time, answers);
        }
    }

    /// Makes a key as if never used. Answers 0, 1 if the key shares its count with others because
    /// the store is full, or a failure's code.
    #[napi(catch_unwind, ts_args_type = "key: string, epochMs: number")]
    pub fn reset(&self, env: Env, key: Unknown<'_>, epoch_ms: f64) -> f64 {
        let mut buffer = KeyBuffer::new();
        // SAFETY: the environment and the value are the running callback's.
        let key = unsafe { buffer.read(env.raw(), key.value().value) };
        let reset = |key: Key<'_>| self.0.reset(key, &TimeOf::call(epoch_ms)).is_err();
        key.map(reset).map_or_else(Failure::code, |shared| f64::from(u8::from(shared)))
    }

    /// Frees the prefix for another policy. The memory is freed when the bound functions are.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.0.close();
    }
}
