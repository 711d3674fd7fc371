//! A limiter on the embedded store, for JavaScript.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::sync::Arc;

use napi::bindgen_prelude::{
    Array, ClassInstance, Env, Float64Array, Float64ArraySlice, JsValue, Result, Unknown,
};
use napi::{Error, Status};
use napi_derive::napi;

use super::hot::{self, CallClock, LimiterCall, NamedTakeCall, TakeCall};
use super::key::{KeyBuffer, element};
use super::operation::{self, KeyBuffers};
use super::policy::NativePolicy;
use super::{invalid, response, whole};
use crate::memory;
use crate::node::policy_set::NativePolicySet;
use crate::node::registry::{LimiterRegistration, LimiterRegistry};
use crate::prefixes::VariantIndex;

/// A limiter on the embedded store. In all methods, `epochMs` below 0 means the system's clock.
#[napi]
#[derive(Debug)]
pub struct NativeMemoryLimiter {
    inner: Arc<memory::MemoryLimiter>,
    is_named: bool,
    /// The registration in a [`LimiterRegistry`], if there is one.
    registration: Option<LimiterRegistration>,
}

impl NativeMemoryLimiter {
    pub(crate) fn new(limiter: memory::MemoryLimiter, is_named: bool) -> Self {
        Self { inner: Arc::new(limiter), is_named, registration: None }
    }

    fn take_each<'a, C: LimiterCall<Target = Arc<memory::MemoryLimiter>>>(
        &self,
        env: Env,
        keys: &Array<'_>,
        costs: &[f64],
        time: &CallClock,
        answers: impl Iterator<Item = &'a mut C::Output>,
    ) {
        for ((index, &cost), answer) in (0..keys.len()).zip(costs).zip(answers) {
            let mut buffer = KeyBuffer::new();
            // SAFETY: the environment and the array are those of the running callback.
            let key =
                unsafe { buffer.read(env.raw(), element(env.raw(), keys.value().value, index)) };
            hot::call_into::<C>(answer, &self.inner, key, whole(cost), time);
        }
    }
}

#[napi]
impl NativeMemoryLimiter {
    /// Whether a take has a single limit without a name, and so a response of ten doubles.
    #[napi(getter, catch_unwind)]
    pub fn is_single(&self) -> bool {
        !self.is_named
    }

    /// Returns a function that takes `cost` units from `key` and writes the response into `answer`.
    /// It is for a limiter whose limits have names; the other limiters are called through a
    /// registry (`LimiterRegistry`).
    #[napi(catch_unwind, ts_return_type = "(key: string, cost?: number, epochMs?: number) => void")]
    pub fn bind_take(&self, env: Env, answer: Float64Array) -> Result<Unknown<'static>> {
        hot::function::<NamedTakeCall>(env, Arc::clone(&self.inner), answer)
    }

    /// Returns a function that executes operations of at most one number, and writes the response into
    /// `answer`. The keys are in the order of the limiter's key dimensions; an undefined key is skipped.
    #[napi(
        catch_unwind,
        ts_return_type = "(operation: number, amount: number, epochMs: number, ...keys: (string | undefined)[]) => void"
    )]
    pub fn bind_execute(&self, env: Env, answer: Float64Array) -> Result<Unknown<'static>> {
        operation::function(env, Arc::clone(&self.inner), answer)
    }

    /// Takes `costs[i]` units from `keys[i]`, in order and independently of each other, and writes
    /// the i-th response into the i-th part of `answers`.
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
        let time = CallClock::call(epoch_ms);
        // SAFETY: TypeScript created the array for this call, and nothing else uses it meanwhile.
        let answers = unsafe { answers.as_mut() };
        if self.is_named {
            let length = response::length_of(self.inner.named_limits().max(1));
            let answers = answers.chunks_exact_mut(length);
            self.take_each::<NamedTakeCall>(env, &keys, &costs, &time, answers);
        } else {
            let answers = answers.as_chunks_mut::<{ response::LENGTH }>().0;
            self.take_each::<TakeCall>(env, &keys, &costs, &time, answers.iter_mut());
        }
    }

    /// Executes an operation on keys, by the numbers of `numbersOf` in `ts/backends/operation.ts`, and
    /// writes the response into `answer`. An override has its policies.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], operation: number, numbers: Float64Array, overrides: readonly (NativePolicy | undefined)[], epochMs: number, answer: Float64Array"
    )]
    #[allow(clippy::too_many_arguments, reason = "JavaScript makes one call")]
    pub fn execute(
        &self,
        env: Env,
        keys: Array<'_>,
        operation: f64,
        numbers: Float64ArraySlice<'_>,
        overrides: Vec<Option<ClassInstance<'_, NativePolicy>>>,
        epoch_ms: f64,
        mut answer: Float64ArraySlice<'_>,
    ) {
        let operation = operation::read_operation(operation, &numbers, overrides);
        let mut buffers = KeyBuffers::new();
        // SAFETY: the environment and the array are those of the running callback.
        let keys = unsafe { buffers.read_array(env, &keys) };
        let time = CallClock::call(epoch_ms);
        // SAFETY: the array is the limiter's own, and nothing else uses it meanwhile.
        let answer = unsafe { answer.as_mut() };
        operation::execute_operation(answer, &self.inner, keys, operation.as_ref(), &time);
    }

    /// The prefix, if another limiter had it open with other numbers when this one was opened.
    #[napi(getter, catch_unwind)]
    pub fn prefix_with_other_numbers(&self) -> Option<&str> {
        self.inner.prefix_with_other_numbers()
    }

    /// Opens a limiter on the same states whose policies have other numbers, as the variant of this
    /// index. `replaces` tells an update from another limiter. Throws if the policies differ in more than
    /// numbers.
    #[napi(catch_unwind)]
    pub fn open_variant(
        &self,
        policies: &NativePolicySet,
        index: u32,
        replaces: bool,
    ) -> Result<Self> {
        let index = VariantIndex { index: index as usize, replaces };
        let variant = self.inner.open_variant(index, policies.inner()).map_err(invalid)?;
        Ok(Self::new(variant, self.is_named))
    }

    /// Frees the prefix for another policy. The memory is freed together with the bound functions.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.inner.close();
    }
}

#[napi]
impl LimiterRegistry {
    /// Adds a limiter, and returns its number. The number is in use until the limiter is collected.
    #[napi(catch_unwind)]
    pub fn add(&self, limiter: &mut NativeMemoryLimiter) -> Result<u32> {
        let registration = limiter.registration.insert(self.register(Arc::clone(&limiter.inner)));
        u32::try_from(registration.number())
            .map_err(|error| Error::new(Status::GenericFailure, error.to_string()))
    }
}
