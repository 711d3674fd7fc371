//! A limiter on the embedded store, for JavaScript.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::sync::Arc;

use napi::bindgen_prelude::{
    Array, ClassInstance, Env, Float64Array, Float64ArraySlice, JsValue, Result, Uint8ArraySlice,
    Unknown,
};
use napi::{Error, Status};
use napi_derive::napi;

use super::hot::{self, CallClock, LimiterCall, NamedTakeCall, TakeCall};
use super::key::{KeyBuffer, element};
use super::operation::{self, KeyBuffers};
use super::policy::NativePolicy;
use super::reservation;
use super::response;
use super::whole;
use crate::memory;
use crate::node::policy_set::NativePolicySet;
use crate::node::registry::{LimiterRegistration, LimiterRegistry};
use crate::policy::operation::Operation;
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
    pub(crate) fn new(ledger: memory::MemoryLimiter, is_named: bool) -> Self {
        Self { inner: Arc::new(ledger), is_named, registration: None }
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

    fn execute_operation(
        &self,
        env: Env,
        keys: &Array<'_>,
        operation: impl Into<Option<Operation>>,
        epoch_ms: f64,
        answer: &mut [f64],
    ) {
        let mut buffers = KeyBuffers::new();
        // SAFETY: the environment and the array are those of the running callback.
        let keys = unsafe { buffers.read_array(env, keys) };
        let time = CallClock::call(epoch_ms);
        operation::execute_operation(answer, &self.inner, keys, operation.into().as_ref(), &time);
    }
}

#[napi]
impl NativeMemoryLimiter {
    /// Whether a take has a single limit without a name, and so a response of seven doubles.
    #[napi(getter, catch_unwind)]
    pub fn is_single(&self) -> bool {
        !self.is_named
    }

    /// Returns a function that takes `cost` units from `key` and writes the response into `answer`.
    /// It is for a limiter whose limits have names; the other limiters are called through a
    /// registry (`Takes`).
    #[napi(catch_unwind, ts_return_type = "(key: string, cost?: number, epochMs?: number) => void")]
    pub fn bind_take(&self, env: Env, answer: Float64Array) -> Result<Unknown<'static>> {
        hot::function::<NamedTakeCall>(env, Arc::clone(&self.inner), answer)
    }

    /// Returns a function that executes operations on keys, by the numbers of
    /// `ts/backends/protocol.ts`, and writes the response into `answer`. The keys are in the order
    /// of the limiter's key dimensions; an undefined key is skipped.
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

    /// Refunds `units` of an earlier call. `taken` has the time of that call and then, by policy,
    /// the time at which the key was to be fresh, in whole microseconds.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], units: number, taken: Float64Array, epochMs: number, answer: Float64Array"
    )]
    pub fn refund(
        &self,
        env: Env,
        keys: Array<'_>,
        units: f64,
        taken: Float64ArraySlice<'_>,
        epoch_ms: f64,
        mut answer: Float64ArraySlice<'_>,
    ) {
        let operation = operation::refund(units, &taken);
        // SAFETY: the array is the limiter's own, and nothing else uses it meanwhile.
        self.execute_operation(env, &keys, operation, epoch_ms, unsafe { answer.as_mut() });
    }

    /// Executes an operation on a hold, whose id has 16 bytes: see `on_hold` in
    /// `src/abi/operation.rs` for the numbers.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], hold: Uint8Array, numbers: Float64Array, epochMs: number, answer: Float64Array"
    )]
    pub fn execute_on_hold(
        &self,
        env: Env,
        keys: Array<'_>,
        hold: Uint8ArraySlice<'_>,
        numbers: Float64ArraySlice<'_>,
        epoch_ms: f64,
        mut answer: Float64ArraySlice<'_>,
    ) {
        let operation = operation::on_hold(&hold, &numbers);
        // SAFETY: the array is the limiter's own, and nothing else uses it meanwhile.
        self.execute_operation(env, &keys, operation, epoch_ms, unsafe { answer.as_mut() });
    }

    /// Takes units with a permit. `numbers` has the units, the permit, and the microseconds for which
    /// the call has waited, which are negative if it does not wait.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], numbers: Float64Array, epochMs: number, answer: Float64Array"
    )]
    pub fn acquire(
        &self,
        env: Env,
        keys: Array<'_>,
        numbers: Float64ArraySlice<'_>,
        epoch_ms: f64,
        mut answer: Float64ArraySlice<'_>,
    ) {
        let operation = operation::acquire(&numbers);
        // SAFETY: the array is the limiter's own, and nothing else uses it meanwhile.
        self.execute_operation(env, &keys, operation, epoch_ms, unsafe { answer.as_mut() });
    }

    /// Overrides the numbers of keys, by policy, for `lastingUs` microseconds.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], policies: readonly (NativePolicy | undefined)[], lastingUs: number, epochMs: number, answer: Float64Array"
    )]
    pub fn override_numbers(
        &self,
        env: Env,
        keys: Array<'_>,
        policies: Vec<Option<ClassInstance<'_, NativePolicy>>>,
        lasting_us: f64,
        epoch_ms: f64,
        mut answer: Float64ArraySlice<'_>,
    ) {
        let operation = operation::override_numbers(policies, lasting_us);
        // SAFETY: the array is the limiter's own, and nothing else uses it meanwhile.
        self.execute_operation(env, &keys, operation, epoch_ms, unsafe { answer.as_mut() });
    }

    /// Schedules `cost` units for the first time at which all policies admit them, if that is at
    /// most `maxWaitUs` microseconds away. The units of the response are the microseconds until
    /// then. The doubles of the scheduled reservations follow the limit reports.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], cost: number, maxWaitUs: number, epochMs: number, answer: Float64Array"
    )]
    pub fn schedule(
        &self,
        env: Env,
        keys: Array<'_>,
        cost: f64,
        max_wait_us: f64,
        epoch_ms: f64,
        mut answer: Float64ArraySlice<'_>,
    ) {
        let operation = reservation::schedule(cost, max_wait_us);
        // SAFETY: the array is the limiter's own, and nothing else uses it meanwhile.
        self.execute_operation(env, &keys, operation, epoch_ms, unsafe { answer.as_mut() });
    }

    /// Cancels scheduled reservations, if nothing was scheduled or taken after them.
    #[napi(
        catch_unwind,
        ts_args_type = "keys: readonly (string | undefined)[], booked: Float64Array, epochMs: number, answer: Float64Array"
    )]
    pub fn cancel_scheduled(
        &self,
        env: Env,
        keys: Array<'_>,
        booked: Float64ArraySlice<'_>,
        epoch_ms: f64,
        mut answer: Float64ArraySlice<'_>,
    ) {
        let operation = reservation::cancel_scheduled(&booked);
        // SAFETY: the array is the limiter's own, and nothing else uses it meanwhile.
        self.execute_operation(env, &keys, operation, epoch_ms, unsafe { answer.as_mut() });
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
        match self.inner.open_variant(index, policies.inner()) {
            Ok(variant) => Ok(Self::new(variant, self.is_named)),
            Err(invalid) => Err(Error::new(Status::InvalidArg, invalid.to_string())),
        }
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
    pub fn add(&self, ledger: &mut NativeMemoryLimiter) -> Result<u32> {
        let registration = ledger.registration.insert(self.register(Arc::clone(&ledger.inner)));
        u32::try_from(registration.number())
            .map_err(|error| Error::new(Status::GenericFailure, error.to_string()))
    }
}
