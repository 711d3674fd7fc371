//! Operations from JavaScript on the embedded store.

#![allow(unsafe_code, reason = "napi's C interface")]

use std::ptr;
use std::sync::Arc;

use napi::bindgen_prelude::{Array, ClassInstance, Env, Float64Array, JsValue, Result, Unknown};
use napi::sys;

use super::hot::{self, CallClock, CallResult};
use super::key::{KeyBuffer, element, number};
use super::policy::NativePolicy;
use super::response::FailureCode;
use super::whole;
use crate::abi::operation;
use crate::key::Key;
use crate::memory::MemoryLimiter;
use crate::policy::operation::Operation;
use crate::policy::policy_set::MAX_POLICIES;
use crate::protocol;

/// The operation of these numbers, and of the policies of an override; `None` if numbers are missing.
pub(crate) fn read_operation(
    code: f64,
    numbers: &[f64],
    overrides: Vec<Option<ClassInstance<'_, NativePolicy>>>,
) -> Option<Operation> {
    let inner = |policy: ClassInstance<'_, NativePolicy>| Arc::new(policy.inner());
    let overrides = || overrides.into_iter().map(|policy| policy.map(inner)).collect();
    operation::read(u8::try_from(whole(code)).ok()?, numbers, overrides)
}

/// Buffers for the keys of one call, by key dimension.
pub(crate) struct KeyBuffers([KeyBuffer; MAX_POLICIES]);

/// The keys of one call, by key dimension; `None` for an undefined key.
type CallKeys<'a> = [Option<Key<'a>>; MAX_POLICIES];

impl KeyBuffers {
    pub(crate) const fn new() -> Self {
        Self([const { KeyBuffer::new() }; MAX_POLICIES])
    }

    /// Reads keys from values.
    ///
    /// # Safety
    /// `env` and the values are those of the running callback.
    unsafe fn read(
        &mut self,
        env: sys::napi_env,
        values: impl Iterator<Item = sys::napi_value>,
    ) -> CallResult<CallKeys<'_>> {
        let mut keys = [None; MAX_POLICIES];
        for ((key, buffer), value) in keys.iter_mut().zip(&mut self.0).zip(values) {
            // SAFETY: the caller guarantees `env` and the values.
            *key = unsafe {
                if is_undefined(env, value) { None } else { Some(buffer.read(env, value)?) }
            };
        }
        // A call without any key has an undefined key.
        if keys.iter().any(Option::is_some) { Ok(keys) } else { Err(FailureCode::NotAString) }
    }

    /// Reads keys from the elements of an array.
    ///
    /// # Safety
    /// `env` and the array are those of the running callback.
    pub(crate) unsafe fn read_array(
        &mut self,
        env: Env,
        array: &Array<'_>,
    ) -> CallResult<CallKeys<'_>> {
        let (env, value) = (env.raw(), array.value().value);
        // SAFETY: the caller guarantees `env` and the array.
        unsafe { self.read(env, (0..array.len()).map(|index| element(env, value, index))) }
    }
}

/// # Safety
/// `env` and `value` are those of the running callback.
unsafe fn is_undefined(env: sys::napi_env, value: sys::napi_value) -> bool {
    let mut kind = sys::ValueType::napi_undefined;
    // SAFETY: the caller guarantees `env` and `value`.
    let status = unsafe { sys::napi_typeof(env, value, &raw mut kind) };
    status != sys::Status::napi_ok || kind == sys::ValueType::napi_undefined
}

/// Executes an operation, and writes its response into `buffer`. A panic becomes a failure
/// response.
pub(crate) fn execute_operation(
    buffer: &mut [f64],
    limiter: &MemoryLimiter,
    keys: CallResult<CallKeys<'_>>,
    operation: Option<&Operation>,
    time: &CallClock,
) {
    hot::write_result(buffer, || {
        let (keys, operation) = (keys?, operation.ok_or(FailureCode::Panicked)?);
        let keys = &keys[..limiter.policies().key_dimensions()];
        limiter.execute(keys, operation, time).map_err(FailureCode::from)
    });
}

/// The callback: `(operation, amount, epochMs, ...keys)`, for an operation of at most one number, or of
/// units by policy alone: then the amount is their number, and the array has them. It writes the response
/// into the array.
unsafe extern "C" fn call(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    // SAFETY: the environment, the information and the data are those of the running callback, and
    // `execute_operation` calls no JavaScript.
    unsafe {
        let (arguments, _, limiter, response) =
            hot::arguments::<{ 3 + MAX_POLICIES }, Arc<MemoryLimiter>, [f64]>(env, info);
        let [code, amount, time, keys @ ..] = arguments;
        let (code, amount) = (number(env, code), number(env, amount));
        let mut numbers = [amount; 1 + MAX_POLICIES];
        let is_metered = whole(code) > u64::from(protocol::operation::METERED);
        let given = if is_metered { usize::try_from(whole(amount)).unwrap_or(0) } else { 0 };
        let count = given.min(MAX_POLICIES).min(response.len());
        numbers[1..=count].copy_from_slice(&response[..count]);
        let operation = read_operation(code, &numbers[..=count], Vec::new());
        let time = CallClock::call(number(env, time));
        let mut buffers = KeyBuffers::new();
        let keys = buffers.read(env, keys.into_iter());
        execute_operation(response, limiter, keys, operation.as_ref(), &time);
    }
    ptr::null_mut()
}

/// A JavaScript function that executes operations and writes responses into `array`.
pub(crate) fn function(
    env: Env,
    limiter: Arc<MemoryLimiter>,
    array: Float64Array,
) -> Result<Unknown<'static>> {
    hot::bind::<_, [f64]>(env, limiter, array, call)
}
